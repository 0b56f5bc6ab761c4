/** Models in GGUF files, for llama.cpp's server. */
import { isCount, type Folder } from './folder.js'
import type { Found } from './found.js'
import { FILE_TYPES, type GgufHeader, type GgufValue } from './gguf.js'
import { languageWords } from './language.js'
import { CardError } from './reader.js'

/** `name-00001-of-00003.gguf`: a part of a model. */
const PART = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/i

/** A model among GGUF files: its files in order. */
interface Candidate { parts: string[], bytes: number }

/** A GGUF file, alone, in parts or among others. Undefined: there is none. @throws CardError */
export async function findGguf (folder: Folder): Promise<Found | undefined> {
  // A projector of pictures lies beside some models and is none itself.
  const paths = folder.matching(/\.gguf$/i).filter((path) => !/(^|\/)mmproj[^/]*$/i.test(path))
  if (paths.length === 0) return undefined
  const models = candidates(folder, paths)
  const preferred = models.find(({ parts }) => /q4_k_m/i.test(parts[0]!))
  const chosen = preferred ?? models.sort((a, b) => a.bytes - b.bytes)[0]!
  const header = await folder.gguf(chosen.parts[0]!)
  await checkParts(folder, header, chosen.parts)
  return facts(header, chosen.parts)
}

function candidates (folder: Folder, paths: readonly string[]): Candidate[] {
  const groups = new Map<string, string[]>()
  for (const path of [...paths].sort()) {
    const [, stem, , of] = PART.exec(path) ?? []
    const group = of === undefined ? path : `${stem}-of-${of}`
    groups.set(group, [...groups.get(group) ?? [], path])
  }
  return [...groups.values()].map((parts) => (
    { parts, bytes: parts.reduce((sum, path) => sum + folder.size(path), 0) }
  ))
}

/** All parts are there, and each is a whole file. */
async function checkParts (folder: Folder, header: GgufHeader, parts: readonly string[]): Promise<void> {
  const expected = Number(PART.exec(parts[0]!)?.[3] ?? 1)
  const split = header.metadata.get('split.count')
  const count = Math.max(expected, typeof split === 'number' ? split : 1)
  if (count !== parts.length) {
    throw new CardError(`${parts[0]} is one of ${count} parts, of which ${parts.length} are among the files`)
  }
  for (const part of parts.slice(1)) await folder.gguf(part)
}

const text = (value: GgufValue | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/** A number, or the largest of one per layer. */
function number (value: GgufValue | undefined): number | undefined {
  const found = typeof value === 'object' && value !== null ? value.largest : value
  return isCount(found) ? found : undefined
}

function facts ({ metadata, bytesByType }: GgufHeader, parts: readonly string[]): Found {
  const family = text(metadata.get('general.architecture'))?.slice(0, 60)
  if (family === undefined) throw new CardError(`${parts[0]} does not say general.architecture`)
  const own = (key: string): number | undefined => number(metadata.get(`${family}.${key}`))
  const need = (key: string): number => own(key) ?? missing(`${family}.${key}`, parts[0]!)
  const template = text(metadata.get('tokenizer.chat_template'))
  const encoder = isEncoder(metadata.get(`${family}.pooling_type`), parts[0]!)
  const [nLayers, hiddenSize] = [need('block_count'), need('embedding_length')]
  const contextLength = need('context_length')
  const heads = own('attention.head_count') ?? 0
  const quantization = quantizationOf(metadata, bytesByType)
  const licence = text(metadata.get('general.license'))
  return {
    ...languageWords({ encoder, family, quantization, nLayers, contextLength, template }),
    family,
    engine: 'llama-server',
    backends: ['cpu', 'cuda'],
    roles: new Map(parts.map((part) => [part, 'weights'])),
    nLayers,
    hiddenSize,
    heads,
    kvHeads: own('attention.head_count_kv') ?? heads,
    headSize: own('attention.key_length') ?? (heads > 0 ? Math.floor(hiddenSize / heads) : 0),
    contextLength,
    quantization,
    ...licence === undefined ? {} : { licence: licence.slice(0, 200) }
  }
}

/** Pooling of tokens makes one vector of a text: 1 mean, 2 first, 3 last. @throws CardError for a ranker */
function isEncoder (pooling: GgufValue | undefined, path: string): boolean {
  if (pooling === 4) throw new CardError(`${path} ranks documents: language and embedding models run here`)
  return typeof pooling === 'number' && pooling > 0
}

function missing (key: string, path: string): never {
  throw new CardError(`${path} does not say ${key}, or says no whole number of 1 or more`)
}

/** The name of the mix, else the type that most bytes have. */
function quantizationOf (
  metadata: GgufHeader['metadata'], bytesByType: GgufHeader['bytesByType']
): string | null {
  const mix = metadata.get('general.file_type')
  const [most] = [...bytesByType].sort(([, a], [, b]) => b - a)
  return (typeof mix === 'number' ? FILE_TYPES[mix] : undefined) ?? most?.[0] ?? null
}
