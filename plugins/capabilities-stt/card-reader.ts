/** Reads model cards of speech-to-text models: Whisper's public ONNX exports. */
import { CardError } from '../runners/cards/reader.js'
import { count, type Fields } from '../runners/language/json.js'
import { readGraph, suffixOf, weightsOf, type OnnxHeader } from '../runners/onnx/facts.js'
import type { CardReader, Folder, ModelFacts } from '../staging/service.js'

/** Endings of graphs, best first: a decoder in 8 bits needs the least memory and time on a CPU. */
const VARIANTS = ['_quantized', '_int8', '_uint8', '', '_q4', '_bnb4', '_fp16']
/** Largest encoder that is used without quantization, as `svc pull` chooses. */
const MOST_ENCODER_BYTES = 400e6
const FOLDERS = ['onnx/', '']
/** Element type of 32-bit floats in TensorProto. */
const FLOAT = 1
/** Positions of a 30 s window, and bytes of working memory for two recordings at once (measured). */
const POSITIONS = 1500
const BATCH_BYTES = 2 * 160 * 2 ** 20
const ATTENTION_COPIES = 4

interface Graph { path: string, header: OnnxHeader }

/** The best usable variant of a graph; undefined if there is none. @throws CardError if all are unusable */
async function findGraph (
  folder: Folder, stem: string, problem: (header: OnnxHeader) => string | null, variants = VARIANTS
): Promise<Graph | undefined> {
  const paths = FOLDERS.flatMap((at) => variants.map((variant) => `${at}${stem}${variant}.onnx`))
  const why: string[] = []
  for (const path of paths.filter((path) => folder.has(path))) {
    try {
      const header = await readGraph(folder, path)
      const found = header.externalFiles.length > 0 ? 'its weights are in another file' : problem(header)
      if (found === null) return { path, header }
      why.push(`${path}: ${found}`)
    } catch (error) {
      why.push((error as Error).message)
    }
  }
  if (why.length === 0) return undefined
  throw new CardError(`none of its graphs can be used: ${why.join('; ')}. Pull the 8-bit graphs ` +
    '(--allow \'onnx/*_quantized.onnx\')')
}

const encoderProblem = (bands: number) => ({ inputs }: OnnxHeader): string | null => {
  const port = inputs.find(({ name }) => name === 'input_features')
  if (port === undefined) return 'it has no input input_features'
  if (port.elemType !== FLOAT) return 'input_features is not float32'
  return typeof port.dims[1] === 'number' && port.dims[1] !== bands
    ? `it takes ${port.dims[1]} mel bands, but config.json says ${bands}`
    : null
}

const stepProblem = ({ inputs }: OnnxHeader): string | null => {
  const port = inputs.find(({ name }) => name === 'past_key_values.0.decoder.key')
  if (port === undefined) return 'it has no input past_key_values.0.decoder.key'
  return port.elemType === FLOAT ? null : 'its cache is not float32'
}

const crossProblem = ({ outputs }: OnnxHeader): string | null => {
  const name = 'present.0.encoder.key'
  return outputs.some((port) => port.name === name) ? null : `it has no output ${name}`
}

/** The decoder: one merged graph, or one for the first token and one for the others. @throws CardError */
async function findDecoder (folder: Folder): Promise<Graph[]> {
  const merged = await findGraph(folder, 'decoder_model_merged', stepProblem)
  if (merged !== undefined) return [merged]
  const first = await findGraph(folder, 'decoder_model', crossProblem)
  const others = await findGraph(folder, 'decoder_with_past_model', stepProblem)
  if (first !== undefined && others !== undefined) return [first, others]
  throw new CardError('it is a Whisper model without a decoder: it needs ' +
    'onnx/decoder_model_merged_quantized.onnx, or decoder_model and decoder_with_past_model')
}

/** Finds a Whisper export; undefined if the folder has none. @throws CardError naming what is missing */
async function findWhisper (folder: Folder): Promise<ModelFacts | undefined> {
  const config = await folder.json('config.json') ?? {}
  if (config['model_type'] !== 'whisper' || folder.matching(/\.onnx$/).length === 0) return undefined
  const generation = await folder.json('generation_config.json')
  if (generation === undefined || !folder.has('tokenizer.json')) {
    const missing = ['generation_config.json', 'tokenizer.json'].filter((name) => !folder.has(name))
    throw new CardError(`it is a Whisper model without ${missing.join(' and ')}`)
  }
  const [layers, width, heads] = ['decoder_layers', 'd_model', 'decoder_attention_heads']
    .map((name) => count(config, name))
  if (layers === undefined || width === undefined || heads === undefined) {
    throw new CardError('config.json lacks decoder_layers, d_model or decoder_attention_heads')
  }
  const bands = count(config, 'num_mel_bins') ?? 80
  // In 8 bits an encoder makes more mistakes on noisy sound, and is hardly faster.
  const isPlain = ['onnx/encoder_model.onnx', 'encoder_model.onnx']
    .some((path) => folder.has(path) && folder.size(path) <= MOST_ENCODER_BYTES)
  const encoder = await findGraph(folder, 'encoder_model', encoderProblem(bands),
    isPlain ? ['', ...VARIANTS] : VARIANTS)
  if (encoder === undefined) {
    throw new CardError('it is a Whisper model without onnx/encoder_model_quantized.onnx')
  }
  const graphs = [encoder, ...await findDecoder(folder)]
  const weights = graphs.flatMap(({ path, header }) => [...weightsOf(path, header)])
  const weightBytes = weights.reduce((sum, [path]) => sum + folder.size(path), 0)
  const rowBytes = 2 * layers * POSITIONS * width * 4
  const languages = languagesOf(generation)
  return {
    tasks: ['stt'], engine: 'onnx-stt', backends: ['cpu'], family: 'whisper',
    description: `Whisper, ${languages.length > 1 ? `${languages.length} languages` : 'English'}.`,
    nLayers: layers, hiddenSize: width, heads, kvHeads: heads, headSize: width / heads,
    contextLength: count(config, 'max_target_positions') ?? 448,
    memory: {
      weightBytes, tokenBytes: 0,
      // Weights are copied while they are loaded.
      workBytes: weightBytes + Math.max(BATCH_BYTES, 2 * rowBytes) +
        ATTENTION_COPIES * heads * POSITIONS ** 2 * 4
    },
    quantization: suffixOf(graphs.at(-1)!.header, graphs.at(-1)!.path),
    languages,
    roles: new Map(weights),
    support: SUPPORT
  }
}

function languagesOf (generation: Fields): string[] {
  if (generation['is_multilingual'] === false) return ['en']
  return Object.keys(generation['lang_to_id'] ?? {}).map((token) => token.replace(/^<\||\|>$/g, ''))
}

/** The effect of request fields; shown verbatim in cards and docs. */
const SUPPORT: Record<string, string> = {
  language: 'one of the listed languages; without it the language of the first 30 seconds is detected',
  prompt: 'its last 224 tokens precede the text of every window: names and spellings to follow',
  temperature: '0 to 1; at 0 a window whose text repeats itself or is improbable is decoded again at ' +
    '0.2 to 1',
  words: 'times of words, from the attention of the decoder',
  logprobs: 'log probabilities of the tokens of the text',
  task: 'transcribe, or translate into English (multilingual models)'
}

export default {
  engine: 'onnx-stt',
  formats: [
    { rank: 3, files: 'Whisper (onnx/encoder_model*.onnx with decoder_model*.onnx)', find: findWhisper }
  ]
} satisfies CardReader
