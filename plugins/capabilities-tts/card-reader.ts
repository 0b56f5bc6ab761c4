/** Reads model cards of speech models: Piper voices and Kokoro. */
import type { CardVoice } from '../../kernel/index.js'
import { CardError } from '../runners/cards/reader.js'
import { chooseGraph, readGraph, suffixOf, weightsOf, type OnnxHeader } from '../runners/onnx/facts.js'
import { child, count, isObject, text, type Fields } from '../runners/language/json.js'
import type { CardReader, Folder, ModelFacts } from '../staging/service.js'
import { isEnglish, kokoroLanguage, languageCode, PHONEME_TYPES } from './languages.js'
import { archiveVoices, ARCHIVE_TAIL, isArchive, PACK_ARCHIVE, PACK_FILE, STYLE_ROW } from './style-packs.js'
import { symbolSubstitutes } from './text/symbols.js'
import { SYMBOLS, vocabularyOf } from './vocabulary.js'

const VOICES = 4096
/** Maximum phoneme symbols per Piper run, and Kokoro's context length in tokens. */
const PIPER_SYMBOLS = 200
const KOKORO_TOKENS = 510
/** Bytes of working memory per byte of weights, for copies while loading and the arena for long sentences. */
const ARENA = { piper: 3.6, kokoro: 2.9 } as const

function memoryOf (
  folder: Folder, weights: ReadonlyMap<string, string>, family: keyof typeof ARENA
): Pick<ModelFacts, 'memory'> {
  const weightBytes = [...weights.keys()].reduce((sum, path) => sum + folder.size(path), 0)
  return { memory: { weightBytes, tokenBytes: 0, workBytes: Math.ceil(weightBytes * ARENA[family]) } }
}

const speech = { tasks: ['tts'], engine: 'onnx-tts', backends: ['cpu'], nLayers: 1 }

/** Element types in ONNX's TensorProto. */
const [FLOAT, INT32, INT64] = [1, 6, 7] as const

function needs (path: string, header: OnnxHeader, names: readonly string[]): void {
  const has = header.inputs.map((input) => input.name)
  const missing = names.filter((name) => !has.includes(name))
  if (missing.length === 0) return
  throw new CardError(`${path} has no input ${missing.join(', ')}: it has ${has.slice(0, 20).join(', ')}`)
}

/** Finds a Piper voice (a graph and its .onnx.json); undefined if there is none. @throws CardError */
async function findPiper (folder: Folder): Promise<ModelFacts | undefined> {
  const voices: [string, Fields][] = []
  for (const path of folder.matching(/\.onnx$/)) {
    const json = await folder.json(`${path}.json`)
    const rate = count(child(json ?? {}, 'audio'), 'sample_rate')
    if (json === undefined || rate === undefined || !isObject(json['phoneme_id_map'])) continue
    voices.push([path, json])
  }
  const [first, ...others] = voices
  if (first === undefined) return undefined
  if (others.length > 0) {
    const names = voices.slice(0, 5).map(([path]) => path).join(', ')
    throw new CardError(`it contains ${voices.length} voices (${names}), but a model is a single voice. ` +
      'Choose one with a pattern of its files.')
  }
  return await piperFacts(folder, ...first)
}

async function piperFacts (folder: Folder, path: string, json: Fields): Promise<ModelFacts> {
  const header = await readGraph(folder, path)
  needs(path, header, ['input', 'input_lengths', 'scales'])
  const speakers = count(json, 'num_speakers') ?? 1
  const many = header.inputs.some(({ name }) => name === 'sid')
  if (many !== speakers > 1) {
    throw new CardError(`${path} and ${path}.json do not match: the graph has ` +
      `${many ? 'several speakers' : 'one speaker'} (input sid), the configuration says ${speakers}`)
  }
  // The bundled voice has the same inputs as Piper; only its `dataset` field tells them apart.
  const family = /^flite\b/.test(text(json, 'dataset') ?? '') ? 'flite' : 'piper'
  const { code, family: wide } = child(json, 'language')
  const codes = [code, child(json, 'espeak')['voice'], wide]
    .filter((name): name is string => typeof name === 'string' && name.length > 0 && name.length <= 40)
    .map(languageCode)
  const language = codes[0] ?? ''
  readable(`${path}.json`, json, language)
  const voices = piperVoices(json, language)
  const rate = count(child(json, 'audio'), 'sample_rate')
  return {
    ...speech,
    description: `Voice in Piper's format (${language === '' ? 'language unknown' : language}), ` +
      `${voices.length === 1 ? '1 speaker' : `${voices.length} speakers`}, ${rate} Hz.`,
    family,
    roles: new Map([...weightsOf(path, header), [`${path}.json`, 'config']]),
    ...family === 'piper' ? memoryOf(folder, weightsOf(path, header), family) : {},
    contextLength: PIPER_SYMBOLS,
    quantization: suffixOf(header, path),
    languages: [...new Set(codes)],
    voices,
    defaults: { voice: voices[0]!.id, speed: 1, temperature: 1, streaming_interval: 1 },
    support: supportOf(family)
  }
}

/** Checks that svc can phonemize text for a Piper voice. @throws CardError if not */
function readable (path: string, json: Fields, language: string): void {
  const type = text(json, 'phoneme_type') ?? 'espeak'
  if (!PHONEME_TYPES.includes(type)) {
    throw new CardError(`${path}: phoneme type "${type}" is not supported, only ` +
      `${PHONEME_TYPES.join(' and ')}: pull another voice (\`svc search piper\`)`)
  }
  const symbols = new Set(Object.keys(child(json, 'phoneme_id_map')))
  const marks = ['_', '^', '$'].filter((mark) => !symbols.has(mark))
  if (marks.length > 0) throw new CardError(`${path}: phoneme_id_map has no ${marks.join(' ')}`)
  const { missing } = symbolSubstitutes(symbols)
  if (type === 'espeak' && isEnglish(language) && missing.length > 0) {
    throw new CardError(`${path}: phoneme_id_map has no ${missing.slice(0, 10).join(' ')}: it is ` +
      'not one of an English voice. Pull the voice again with its own .onnx.json')
  }
}

function piperVoices (json: Fields, language: string): CardVoice[] {
  const speakers = count(json, 'num_speakers') ?? 1
  const named = Object.keys(child(json, 'speaker_id_map'))
  if (speakers === 1) return [{ id: 'default', name: text(json, 'dataset', 100) ?? 'default', language }]
  const most = Math.max(speakers, named.length)
  if (most > VOICES) throw new CardError(`the voice has ${most} speakers, more than ${VOICES}`)
  const ids = named.length > 0 ? named : Array.from({ length: speakers }, (_, i) => String(i))
  return ids.map((id) => ({ id, name: id, language }))
}

/** Names of quantized graphs, which are not preferred because 8-bit weights are slower on a CPU. */
const REDUCED = /[._-](fp16|u?int8|q\d\w{0,15}|quantized|bnb4)\.onnx$/

/** Names of the token input, which differ between exporters. */
const TOKENS = ['input_ids', 'tokens']
const isKokoro = (header: OnnxHeader): boolean => {
  const has = new Set(header.inputs.map(({ name }) => name))
  return has.has('style') && has.has('speed') && TOKENS.some((name) => has.has(name))
}

/**
 * Finds a Kokoro model: a graph, style packs and a vocabulary in config.json or tokenizer.json (else v1.0's).
 * Undefined if the folder has none. @throws CardError
 */
async function findKokoro (folder: Folder): Promise<ModelFacts | undefined> {
  const graphs = folder.matching(/\.onnx$/)
  const whole = graphs.filter((path) => !REDUCED.test(path))
  const graph = chooseGraph(folder, whole.length > 0 ? whole : graphs)
  if (graph === undefined) return undefined
  const config = await folder.json('config.json') ?? {}
  const named = 'n_token' in config || 'istftnet' in config ||
    text(config, 'model_type') === 'style_text_to_speech_2'
  const packs = folder.matching(PACK_FILE)
  const archives = folder.matching(PACK_ARCHIVE).filter((path) => !packs.includes(path))
  if (!named && packs.length === 0 && archives.length === 0 && graphs.length > 1) return undefined
  const header = await readGraph(folder, graph)
  if (!named && !isKokoro(header)) return undefined
  const [tokens] = TOKENS.filter((name) => header.inputs.some((input) => input.name === name))
  needs(graph, header, [tokens ?? 'input_ids', 'style', 'speed'])
  checkTypes(graph, header)
  const voices = [...singlePacks(folder, packs), ...await archivedPacks(folder, archives)].slice(0, VOICES)
  if (voices.length === 0) {
    throw new CardError(`${graph} is a Kokoro model, but it has no style packs (voices/*.bin or ` +
      'voices-v1.0.bin): pull them too, for instance with --allow \'voices/*\'')
  }
  const spoken = withRules(voices)
  return {
    ...await kokoroFacts(folder, config, spoken), ...memoryOf(folder, weightsOf(graph, header), 'kokoro'),
    ...placesOf(folder, graph, header, packs, archives)
  }
}

/** Accepted element types of the inputs. Floats are float32 even in exports with quantized weights. */
const TYPES: Readonly<Record<string, readonly number[]>> = {
  input_ids: [INT64], tokens: [INT64], style: [FLOAT], speed: [FLOAT, INT32]
}

/** Checks input and output types against the public exports. @throws CardError if one differs */
function checkTypes (path: string, { inputs, outputs }: OnnxHeader): void {
  const ports = [...inputs.map((port) => ({ ...port, types: TYPES[port.name] })),
    ...outputs.slice(0, 1).map((port) => ({ ...port, types: [FLOAT] }))]
  const other = ports.find(({ elemType, types }) => types !== undefined && !types.includes(elemType))
  if (other !== undefined) {
    throw new CardError(`${path}: ${other.name} has element type ${other.elemType}, but only ` +
      `${other.types!.join(' or ')} is supported (numbers of TensorProto): pull others with --variant`)
  }
  const width = inputs.find(({ name }) => name === 'style')?.dims.at(-1)
  if (typeof width === 'number' && width * 4 !== STYLE_ROW) {
    throw new CardError(`${path}: style has ${width} values, but Kokoro's packs have rows of ` +
      `${STYLE_ROW / 4}: these weights belong to another model`)
  }
}

/** Names of voices with one style file each. @throws CardError if a file is not a whole number of rows */
function singlePacks (folder: Folder, packs: readonly string[]): string[] {
  return packs.map((pack) => {
    // Any file may end in .bin, so check at least its size.
    const bytes = folder.size(pack)
    if (bytes === 0 || bytes % STYLE_ROW !== 0) {
      throw new CardError(`style pack ${pack} has ${bytes} bytes, not a multiple of ${STYLE_ROW}`)
    }
    return pack.slice(pack.lastIndexOf('/') + 1, -'.bin'.length)
  })
}

/**
 * Names of the voices that ZIP archives list, without unpacking them. @throws CardError for an invalid one
 */
async function archivedPacks (folder: Folder, archives: readonly string[]): Promise<string[]> {
  const voices: string[] = []
  for (const path of archives) {
    const { head, tail, from } = await folder.ends(path, ARCHIVE_TAIL)
    try {
      if (!isArchive(head)) throw new RangeError('it is not a NumPy archive (svc never opens a pickle)')
      voices.push(...archiveVoices(tail, from).map(({ voice }) => voice))
    } catch (error) {
      throw new CardError(`style packs ${path}: ${(error as Error).message}`, { cause: error })
    }
  }
  return voices
}

/** Keeps the voices in supported languages. @throws CardError if none is left */
function withRules (voices: readonly string[]): string[] {
  const spoken = voices.filter((voice) => {
    const language = kokoroLanguage(voice)
    return language === undefined || language.espeak !== undefined
  })
  if (spoken.length > 0) return spoken
  const languages = [...new Set(voices.map((voice) => kokoroLanguage(voice)?.code))].join(', ')
  throw new CardError(`all its voices speak ${languages}, which svc does not support: pull ` +
    'voices of another language too, for instance with --allow \'voices/af_*\'')
}

const placesOf = (
  folder: Folder, graph: string, header: OnnxHeader, packs: readonly string[], archives: readonly string[]
): Pick<ModelFacts, 'roles' | 'quantization'> => ({
  roles: new Map([
    ...weightsOf(graph, header),
    ...folder.has('config.json') ? [['config.json', 'config'] as const] : [],
    ...packs.map((pack): [string, string] => [pack, 'voice']),
    ...archives.map((path): [string, string] => [path, 'voices'])
  ]),
  quantization: suffixOf(header, graph)
})

async function kokoroFacts (
  folder: Folder, config: Fields, ids: readonly string[]
): Promise<Omit<ModelFacts, 'roles' | 'quantization'>> {
  const tokenizer = await folder.json('tokenizer.json')
  const vocabulary = vocabularyOf(config) ?? vocabularyOf(tokenizer)
  const most = count(config, 'n_token') ?? SYMBOLS
  const beyond = [...vocabulary ?? []].find(([, id]) => id >= most)
  if (beyond !== undefined) {
    throw new CardError(`the vocabulary maps "${beyond[0]}" to ${beyond[1]}, but Kokoro's graph has ` +
      `${most} symbols: it belongs to another model`)
  }
  const voices = ids.map(kokoroVoice)
  return {
    ...speech,
    description: `Kokoro with ${voices.length} voices, 24,000 Hz.`,
    family: 'kokoro',
    contextLength: KOKORO_TOKENS,
    languages: [...new Set(voices.map(({ language }) => language).filter((code) => code !== ''))],
    voices,
    defaults: {
      voice: voices.find(({ id }) => id === 'af_heart')?.id ?? voices[0]!.id, speed: 1, streaming_interval: 1
    },
    support: supportOf('kokoro')
  }
}

/** Derives a voice's card from its id; `af_heart` is Heart, a female voice of American English. */
function kokoroVoice (id: string): CardVoice {
  const [, sex, name] = /^[a-z]([fm])_(.+)$/.exec(id) ?? []
  const language = kokoroLanguage(id)?.code ?? ''
  if (sex === undefined || name === undefined) return { id, name: id, language }
  const shown = `${name.slice(0, 1).toUpperCase()}${name.slice(1)} (${sex === 'f' ? 'female' : 'male'})`
  return { id, name: shown, language }
}

export default {
  engine: 'onnx-tts',
  formats: [
    { rank: 1, files: 'a Piper voice (*.onnx with *.onnx.json)', find: findPiper },
    { rank: 2, files: 'Kokoro (*.onnx with voices/*.bin or voices-v1.0.bin)', find: findKokoro }
  ]
} satisfies CardReader

/** The effect of request fields that all voice families treat alike; shown verbatim in cards and docs. */
const COMMON = {
  text: 'spoken; up to the size a request may have',
  response_format: 'mp3: mono, constant bit rate, the voice\'s own sampling rate',
  streaming_interval: 'seconds of audio per chunk, 0.04 to 60 (default 1); the first chunks are shorter, ' +
    'so that sound starts at once',
  max_tokens: 'most phoneme symbols spoken in the whole answer; speech ends there, in the middle of a word ' +
    'if need be',
  top_p: 'no effect: this family does not sample tokens',
  top_k: 'no effect: this family does not sample tokens',
  repetition_penalty: 'no effect: this family does not sample tokens',
  instruct: 'no effect: this family does not follow instructions'
}

const VITS = {
  ...COMMON,
  voice: 'one of the listed voices',
  speed: 'multiple of the voice\'s own tempo, 0.25 to 4',
  temperature: 'multiple of the voice\'s own noise level, 0 to 2; beyond that the nearest of them'
}

const TABLES: Record<string, Record<string, string>> = {
  flite: {
    ...VITS,
    lang_code: 'en, en-us, or ipa for text that is phonemes already',
    seed: 'seeds the noise of the excitation: same seed, same bytes; seeds from 2^22 on share the noise of ' +
      'smaller ones. Without a seed the noise is always the same'
  },
  piper: {
    ...VITS,
    lang_code: 'the voice\'s own language, or ipa for text that is phonemes already; languages other than ' +
      'English need the package piper-phonemize',
    seed: 'seeds rhythm and tone: same seed, same bytes on the same machine; without a seed every answer ' +
      'differs a little'
  },
  kokoro: {
    ...COMMON,
    voice: 'one of the listed voices, or several joined by commas: their mean',
    speed: 'multiple of the voice\'s own tempo, 0.5 to 2 (1 or 2 if the graph accepts only whole numbers)',
    temperature: 'no effect: this family has no noise level',
    lang_code: 'en-us, en-gb, es, fr-fr, hi, it, pt-br (or the letter a, b, e, f, h, i, p), or ipa for ' +
      'text that is phonemes already; by default the language of the voice\'s first letter; those other ' +
      'than English need the package piper-phonemize',
    seed: 'seeds the noise of the graph if it draws any: same seed, same bytes on the same machine'
  }
}

export function supportOf (family: string): Record<string, string> { return { ...TABLES[family] } }
