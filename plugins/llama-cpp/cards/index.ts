/** Reads model cards from GGUF files. */
import { CardError } from '../../runners/cards/reader.js'
import { modelSampling } from '../../runners/language/sampling.js'
import { modelWords } from '../../runners/language/words.js'
import type { CardReader, Folder, ModelFacts } from '../../staging/service.js'
import { GGUF_ENGINE } from '../engine.js'
import { TEMPLATE_FILE } from '../text/source.js'
import { ChatTemplate } from '../text/template.js'
import { largestOf, memoryFacts } from './gguf-memory.js'
import { FILE_TYPES, readGguf, type GgufHeader, type GgufValue } from './gguf.js'

/** Finds the GGUF model in a folder, whether split or not; undefined if there is none. @throws CardError */
async function findGguf (folder: Folder): Promise<ModelFacts | undefined> {
  const { models, companions: beside } = folder.gguf()
  if (models.length === 0) return undefined
  const preferred = models.find(({ files }) => /q4_k_m/i.test(files[0]!.path))
  const { files, parts } = preferred ?? models.sort((a, b) => a.bytes - b.bytes)[0]!
  const paths = files.map(({ path }) => path)
  const header = await readGguf(folder.at(paths[0]!))
  const split = header.metadata.get('split.count')
  const count = Math.max(parts, typeof split === 'number' ? split : 1)
  if (count !== paths.length) {
    throw new CardError(`${paths[0]} is one of ${count} parts, but there are ${paths.length}`)
  }
  // Each part of a split model is a GGUF file with its own header, so read them all.
  const headers = [header]
  for (const path of paths.slice(1)) headers.push(await readGguf(folder.at(path)))
  const companions = new Map([...beside].map(([{ path }, role]) => [path, role]))
  const template = folder.has(TEMPLATE_FILE) ? await folder.text(TEMPLATE_FILE) : undefined
  const found = facts(header, paths, companions, template)
  const defaults = found.tasks.includes('completions')
    ? modelSampling(header.metadata, await folder.json('generation_config.json') ?? {}) : {}
  const companion = async (role: string): Promise<GgufHeader | undefined> => {
    const [path] = [...companions].find(([, one]) => one === role) ?? []
    return path === undefined ? undefined : await readGguf(folder.at(path))
  }
  const [drafter, vision] = [await companion('assistant'), await companion('vision_weights')]
  const parameters = headers.flatMap(({ tensors }) => tensors)
    .reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0)
  return { ...found, parameters, defaults, memory: memoryFacts(headers, drafter, vision) }
}

const text = (value: GgufValue | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

function facts (
  header: GgufHeader, parts: readonly string[], companions: ReadonlyMap<string, string>,
  given: string | undefined
): ModelFacts {
  const { metadata } = header
  const family = text(metadata.get('general.architecture'))?.slice(0, 60)
  if (family === undefined) throw new CardError(`${parts[0]} has no general.architecture`)
  const own = (key: string): number | undefined => largestOf(metadata.get(`${family}.${key}`))
  const need = (key: string): number => own(key) ?? missing(`${family}.${key}`, parts[0]!)
  const encoder = encoderOf(metadata.get(`${family}.pooling_type`))
  const template = given ?? text(metadata.get('tokenizer.chat_template'))
  const [nLayers, hiddenSize] = [need('block_count'), need('embedding_length')]
  const contextLength = need('context_length')
  const heads = own('attention.head_count') ?? 0
  const quantization = quantizationOf(header)
  const licence = text(metadata.get('general.license'))
  const words = modelWords({
    encoder, family, quantization, nLayers, contextLength,
    // llama.cpp parses tool calls itself, so tools work if the template shows them to the model.
    template: encoder !== null || template === undefined ? null : { hidesTools: hidesTools(template) }
  })
  const sees = [...companions.values()].includes('vision_weights')
  return {
    ...words,
    ...sees ? { support: { ...words.support, images: 'read by the vision weights of the model' } } : {},
    family, engine: GGUF_ENGINE, backends: ['cpu', 'cuda'],
    roles: new Map([...companions, ...parts.map((part) => [part, 'weights'] as const)]), nLayers,
    hiddenSize, heads, kvHeads: own('attention.head_count_kv') ?? heads,
    headSize: own('attention.key_length') ?? (heads > 0 ? Math.floor(hiddenSize / heads) : 0),
    contextLength, quantization, ...licence === undefined ? {} : { licence: licence.slice(0, 200) }
  }
}

/** Converts a pooling type: 1 (mean), 2 (first token) and 3 (last token) make embeddings, 4 a reranker. */
function encoderOf (pooling: GgufValue | undefined): 'embeddings' | 'rerank' | null {
  if (pooling === 4) return 'rerank'
  return typeof pooling === 'number' && pooling > 0 ? 'embeddings' : null
}

function missing (key: string, path: string): never {
  throw new CardError(`${path} has no ${key}, or it is not a whole number above 0`)
}

/** The name of the quantization mix, or else the tensor type that takes the most bytes. */
function quantizationOf ({ metadata, tensors }: GgufHeader): string | null {
  const mix = metadata.get('general.file_type')
  const bytes = new Map<string, number>()
  for (const { type, bytes: more } of tensors) bytes.set(type, (bytes.get(type) ?? 0) + more)
  const [most] = [...bytes].sort(([, a], [, b]) => b - a)
  return (typeof mix === 'number' ? FILE_TYPES[mix] : undefined) ?? most?.[0] ?? null
}

/** Whether the chat template can be rendered with tools but leaves them out. */
function hidesTools (template: string): boolean {
  const names = { bos_token: '<s>', eos_token: '</s>' }
  const { tools: { way, problem } } = new ChatTemplate(new Map([['default', template]]), names)
  return way === null && problem === null
}

export default {
  engine: GGUF_ENGINE, formats: [{ rank: 5, files: '*.gguf', find: findGguf }]
} satisfies CardReader
