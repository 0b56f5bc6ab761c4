/**
 * Voices in the layouts of public exports, with random weights: they produce noise, but load, run and stream
 * like real voices. Generated on demand and never committed:
 * node --import=./test/tools/typescript.mjs test/models/speech.ts /tmp/voices
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { crc32 } from 'node:zlib'
import {
  makeKokoro, makePiper, makePiperConfig, MEDIUM, TINY, type VitsShape
} from '../../plugins/capabilities-tts/test/fixtures/make-graphs.js'
import { kokoroVocabulary } from '../../plugins/capabilities-tts/vocabulary.js'
import type { Precision } from '../../plugins/capabilities-tts/test/fixtures/graph-builder.js'

const ROWS = 510
const WIDTH = 256

/** Some voices of Kokoro's public releases, covering each language and sex. */
export const KOKORO_VOICES = ['af_heart', 'af_alloy', 'am_echo', 'bf_emma', 'bm_fable', 'ef_dora', 'ff_siwis',
  'hf_alpha', 'if_sara', 'jf_alpha', 'pm_alex', 'zf_xiaobei']

type Files = Record<string, string | Uint8Array | object>

async function put (folder: string, files: Files): Promise<string[]> {
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name)
    await mkdir(dirname(path), { recursive: true })
    const raw = typeof content === 'string' || content instanceof Uint8Array
    await writeFile(path, raw ? content : JSON.stringify(content))
  }
  return Object.keys(files)
}

/** The style vectors of Kokoro voice number `k`: one row per text length; rows differ slightly. */
function stylePack (k: number): Uint8Array {
  const rows = new Float32Array(ROWS * WIDTH)
  for (let i = 0; i < rows.length; i++) rows[i] = Math.sin(i * (k + 1)) + Math.floor(i / WIDTH) * 0.01
  return new Uint8Array(rows.buffer)
}

const SUFFIXES: Readonly<Record<Precision, string>> = { fp32: '', fp16: '_fp16', q8f16: '_q8f16' }

/** Layout of `onnx-community/Kokoro-82M-v1.0-ONNX`: tokenizer.json has the vocabulary, config.json none. */
export async function writeKokoroCommunity (
  folder: string,
  { voices = KOKORO_VOICES, precisions = ['fp32'] }: { voices?: string[], precisions?: Precision[] } = {}
): Promise<string[]> {
  const vocab = { $: 0, ...Object.fromEntries(kokoroVocabulary()) }
  const template = [
    { SpecialToken: { id: '$', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } },
    { SpecialToken: { id: '$', type_id: 0 } }
  ]
  return await put(folder, {
    'config.json': { model_type: 'style_text_to_speech_2' },
    'tokenizer_config.json': { model_max_length: 512, tokenizer_class: 'PreTrainedTokenizer' },
    'tokenizer.json': {
      version: '1.0', truncation: null, padding: null, added_tokens: [],
      normalizer: { type: 'Replace', pattern: { Regex: '[^$]' }, content: '' },
      pre_tokenizer: { type: 'Split', pattern: { Regex: '' }, behavior: 'Isolated', invert: false },
      post_processor: {
        type: 'TemplateProcessing', single: template, pair: [],
        special_tokens: { $: { id: '$', ids: [0], tokens: ['$'] } }
      },
      decoder: null,
      model: { vocab }
    },
    ...Object.fromEntries(precisions.map((precision) => [`onnx/model${SUFFIXES[precision]}.onnx`,
      makeKokoro({ tokens: 'input_ids', speed: 'float32', noise: true, precision })])),
    ...Object.fromEntries(voices.map((voice, k) => [`voices/${voice}.bin`, stylePack(k)]))
  })
}

/** Layout of kokoro-onnx releases: a graph, and one archive of all voices. `config` adds a config.json. */
export async function writeKokoroArchive (
  folder: string, { voices = KOKORO_VOICES, config = false }: { voices?: string[], config?: boolean } = {}
): Promise<string[]> {
  const original = { n_token: 178, istftnet: {}, vocab: Object.fromEntries(kokoroVocabulary()) }
  return await put(folder, {
    'kokoro-v1.0.onnx': makeKokoro({ tokens: 'tokens', speed: 'float32', noise: true }),
    'voices-v1.0.bin': npz(voices.map((voice, k) => [voice, stylePack(k)])),
    ...config ? { 'config.json': original } : {}
  })
}

/** Layout of Piper's voices: `en_US-lessac-medium.onnx` with its `.onnx.json`. */
export async function writePiper (
  folder: string, { shape = TINY, name = 'en_US-lessac-medium', config = {} }:
  { shape?: VitsShape, name?: string, config?: Record<string, unknown> } = {}
): Promise<string[]> {
  return await put(folder, {
    [`${name}.onnx`]: makePiper(shape).bytes,
    [`${name}.onnx.json`]: makePiperConfig(shape, { dataset: name.split('-')[1], ...config })
  })
}

/** An archive as `numpy.savez` writes it: a ZIP of uncompressed `.npy` files. */
function npz (arrays: ReadonlyArray<readonly [string, Uint8Array]>): Uint8Array {
  const locals: Buffer[] = []
  const list: Buffer[] = []
  let at = 0
  for (const [name, values] of arrays) {
    const file = Buffer.from(`${name}.npy`)
    const content = npy(values)
    // ZIP header fields: version, flags, method, time, date, checksum, both sizes, length of the name.
    const facts = Buffer.alloc(24)
    facts.writeUInt16LE(20, 0)
    facts.writeUInt32LE(crc32(content), 10)
    facts.writeUInt32LE(content.length, 14)
    facts.writeUInt32LE(content.length, 18)
    facts.writeUInt16LE(file.length, 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), facts, Buffer.alloc(2), file, content])
    const entry = Buffer.alloc(16)
    entry.writeUInt32LE(at, 12)
    list.push(Buffer.concat([Buffer.from('PK\x01\x02'), Buffer.from([20, 3]), facts, entry, file]))
    locals.push(local)
    at += local.length
  }
  const end = Buffer.alloc(18)
  for (const field of [4, 6]) end.writeUInt16LE(arrays.length, field)
  end.writeUInt32LE(Buffer.concat(list).length, 8)
  end.writeUInt32LE(at, 12)
  return Buffer.concat([...locals, ...list, Buffer.from('PK\x05\x06'), end])
}

function npy (values: Uint8Array): Buffer {
  const shape = `(${values.length / 4 / WIDTH}, 1, ${WIDTH})`
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': ${shape}, }`
  const padded = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + '\n'
  const length = Buffer.alloc(2)
  length.writeUInt16LE(padded.length)
  return Buffer.concat([Buffer.from('\x93NUMPY\x01\x00', 'latin1'), length, Buffer.from(padded), values])
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const out = resolve(process.argv[2] ?? 'voices')
  await writeKokoroCommunity(join(out, 'kokoro-community'), { precisions: ['fp32', 'fp16', 'q8f16'] })
  await writeKokoroArchive(join(out, 'kokoro-archive'))
  await writeKokoroArchive(join(out, 'kokoro-archive-config'), { config: true })
  await writePiper(join(out, 'piper-medium'), { shape: MEDIUM })
  process.stdout.write(`written below ${out}\n`)
}
