/** A Piper voice of medium size with random weights, written by test/models and cached. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { cache, root, source } from './paths.mjs'

const FIXTURES = join(root, 'plugins/capabilities-tts/test/fixtures')
const SOURCES = ['graph-builder.ts', 'make-graphs.ts']

/** Additional symbols of espeak's American English, so that no phoneme is skipped. */
const MORE_SYMBOLS = [...'gɾᵻɫʔɒ"()—̩̃']

/**
 * Folder with voice.onnx (63 MB), voice.onnx.json and tokens.txt (the same symbols, as sherpa-onnx reads
 * them), and the number of weights. Duration noise is 0, so that all engines produce the same length.
 */
export async function mediumVoice () {
  const hash = createHash('sha256')
  for (const name of SOURCES) hash.update(readFileSync(join(FIXTURES, name)))
  const folder = join(cache, `medium-${hash.digest('hex').slice(0, 12)}`)
  const at = (name) => join(folder, name)
  if (!existsSync(at('voice.onnx'))) {
    mkdirSync(folder, { recursive: true })
    const { FIXTURE_SYMBOLS, makePiper, makePiperConfig, MEDIUM } =
      await source('plugins/capabilities-tts/test/fixtures/make-graphs.ts')
    const symbols = ['_', '^', '$', ...FIXTURE_SYMBOLS, ...MORE_SYMBOLS]
    const config = makePiperConfig(MEDIUM, {
      phoneme_id_map: Object.fromEntries(symbols.map((symbol, id) => [symbol, [id]])),
      inference: { noise_scale: 0.667, length_scale: 1, noise_w: 0 }
    })
    writeFileSync(at('voice.onnx.json'), JSON.stringify(config))
    writeFileSync(at('tokens.txt'), symbols.map((symbol, id) => `${symbol} ${id}\n`).join(''))
    const { bytes, parameters } = makePiper(MEDIUM)
    writeFileSync(at('info.json'), JSON.stringify({ parameters, bytes: bytes.length }))
    writeFileSync(at('voice.part'), bytes)
    renameSync(at('voice.part'), at('voice.onnx'))
  }
  return { folder, ...JSON.parse(readFileSync(at('info.json'), 'utf8')) }
}

/** Model card of the voice for svc's engine. */
export const mediumCard = {
  modelId: 'bench/piper-medium',
  revision: '1',
  title: '',
  description: '',
  tasks: ['tts'],
  family: 'piper',
  engine: 'onnx-tts',
  backends: ['cpu'],
  totalBytes: 0,
  nLayers: 1,
  hiddenSize: 192,
  heads: 0,
  kvHeads: 0,
  headSize: 0,
  contextLength: 0,
  supportsTensor: false,
  companions: [],
  licence: '',
  languages: ['en-us'],
  quantization: null,
  voices: [],
  // svc uses the same phonemizer as sherpa-onnx, so that both synthesise the same phonemes.
  defaults: { phonemizer: 'espeak' },
  support: {},
  files: ['voice.onnx', 'voice.onnx.json'].map((path) => ({ path, role: 'file', bytes: 0 }))
}
