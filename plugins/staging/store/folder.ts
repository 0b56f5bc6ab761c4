import { existsSync } from 'node:fs'
import { lstat, realpath, readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { hashFile, type HashOptions } from '../files/hash.js'
import { openInside } from '../files/open.js'
import { isModel, isModelFile, isWeights, matcherOf, otherWeights } from '../hub/select.js'
import { modelsIn, belongsTo, partOfGraph, QUANTISATION, type Choosable } from '../hub/select-weights.js'
import { sizeText } from '../space/plans.js'
import { CHUNK_BYTES, StoreError, type ManifestFile, type ModelManifest } from '../types.js'
import { checkManifest } from '../files/record.js'
import { walkModel } from '../files/walk.js'
import { roleOf } from '../cards/found.js'
import { ggufCompanions, ggufModels } from '../cards/gguf-parts.js'
import { filePathProblem, PathError } from '../files/names.js'

const HOME_KEY = 'node.key'

/** `stamp` differs if the file may have changed: it contains the size, mtime, ctime and inode. */
export interface FileStamp { size: number, stamp: string }

/** The files to import: a test for all files of a folder, or a list, so that the folder is not searched. */
type Taken = readonly string[] | ((path: string) => boolean)

/** The files of a model folder by path, sorted. Throws PathError as walkModel does. */
async function listFiles (folder: string, taken: Taken = () => true): Promise<Map<string, FileStamp>> {
  const seen = new Map<string, FileStamp>()
  const paths = typeof taken === 'function'
    ? (await walkModel(folder)).map(({ path }) => path).filter(taken) : taken
  for (const path of paths) {
    const stats = await lstat(join(folder, path), { bigint: true }).catch(() => undefined)
    if (stats === undefined) continue
    const { size, mtimeNs, ctimeNs, ino } = stats
    seen.set(path, { size: Number(size), stamp: `${size} ${mtimeNs} ${ctimeNs} ${ino}` })
  }
  return seen
}

/** Selects the files of a folder: known formats that match `allow`. */
function importFilter (allow: readonly string[] | null | undefined): Taken {
  const allowed = allow == null ? () => true : matcherOf(allow)
  return (path) => {
    if (basename(path) === HOME_KEY) {
      throw new StoreError('bad_source', `it has the home folder of a node, ${dirname(path)}`)
    }
    return isModelFile(path) && allowed(path)
  }
}

/** The files to import by path; they are `taken` from `folder`. */
export interface LocalSource { folder: string, taken: Taken, seen: Map<string, FileStamp> }

/** Number of models that a message names. */
const MOST_NAMED = 20

/** Lists the files to import from a folder, or of one file's model. Throws `bad_source`, PathError. */
export async function openSource (
  source: string, allow: readonly string[] | null | undefined
): Promise<LocalSource> {
  const refused = (why: string): StoreError => new StoreError('bad_source', `${source} ${why}`)
  const real = await realpath(source).catch((error: Error) => {
    throw new StoreError('bad_source', `cannot read ${source}: ${error.message}`, { cause: error })
  })
  if (real !== resolve(source)) throw refused(`is a link or has one in its path; use ${real}`)
  const found = await lstat(source)
  if (!found.isDirectory() && !(found.isFile() && isWeights(source))) {
    throw refused('is neither a folder nor a .gguf or .onnx file')
  }
  for (let at = real, below = ''; at !== below; below = at, at = dirname(at)) {
    if (existsSync(join(at, HOME_KEY))) throw refused(`is in the home folder of a node, ${at}`)
  }
  const { folder, taken } = found.isFile()
    ? await modelOfFile(source) : { folder: source, taken: importFilter(allow) }
  const seen = await listFiles(folder, taken)
  if (seen.size === 0) throw refused('has no model files')
  const files = [...seen].map(([path, { size }]) => ({ path, size }))
  if (!isModel(files)) {
    throw refused(`has ${otherWeights(files) ?? 'neither GGUF nor ONNX weights, nor a card.yaml'}`)
  }
  const models = seen.has('card.yaml') ? [] : modelsIn(files)
  if (models.length > 1) {
    const named = models.slice(0, MOST_NAMED).map(({ path, bytes }) => `${path} (${sizeText(bytes)})`)
    throw refused(`has ${models.length} models: ${named.join(', ')}. Pull one of them, as in ` +
      `\`svc pull ${join(source, models[0]!.path)}\`, or select its files with --allow`)
  }
  return { folder, taken, seen }
}

/** Throws StoreError `source_changed` with the first changed file. */
export async function checkUnchanged (
  folder: string, before: ReadonlyMap<string, FileStamp>, taken?: Taken
): Promise<void> {
  const after = await listFiles(folder, taken)
  for (const path of new Set([...before.keys(), ...after.keys()])) {
    if (before.get(path)?.stamp === after.get(path)?.stamp) continue
    throw new StoreError('source_changed',
      `${join(folder, path)} changed while it was read; retry when no program writes to it`)
  }
}

export interface TreeOptions extends HashOptions {
  modelId: string
  revision: string
  /** Selects the files to hash; by default all files are hashed. */
  taken?: Taken
}

/**
 * Hashes a folder in place. Throws StoreError `source_changed` if it changes meanwhile, ManifestError if it
 * is empty or has names that differ only in case, PathError for symbolic links.
 */
export async function hashTree (
  folder: string, { modelId, revision, taken, ...options }: TreeOptions
): Promise<ModelManifest> {
  const before = await listFiles(folder, taken)
  const files: ManifestFile[] = []
  for (const path of before.keys()) files.push({ path, ...await hashFile(join(folder, path), options) })
  await checkUnchanged(folder, before, taken)
  const totalBytes = files.reduce((sum, file) => sum + file.size, 0)
  return checkManifest({ modelId, revision, totalBytes, chunkBytes: CHUNK_BYTES, files })
}

/** Makes files read-only, as hard-linked copies share them. Skips files to which other programs link. */
export async function makeReadOnly (folder: string, manifest: ModelManifest): Promise<void> {
  for (const { path } of manifest.files) await setMode(folder, path, 0o444)
}

/** Makes files writable again after a crash between `makeReadOnly` and the publication. */
export async function makeWritable (folder: string): Promise<void> {
  for (const { path } of await walkModel(folder)) await setMode(folder, path, 0o600)
}

async function setMode (folder: string, path: string, mode: number): Promise<void> {
  const file = await openInside(folder, path, 'read')
  try {
    if ((await file.stat()).nlink === 1) await file.chmod(mode)
  } finally { await file.close() }
}

/** Folders beside weights whose files may belong to them. */
const INNER = ['', 'onnx', 'voices', '1_Pooling']
const STYLE_PACK = /^voices(\/|[^/]*\.(bin|npz)$)/

/** The files of the model that a GGUF or ONNX file belongs to. Throws StoreError `bad_source`, PathError. */
async function modelOfFile (file: string): Promise<{ folder: string, taken: string[] }> {
  const [at, above] = [dirname(file), dirname(dirname(file))]
  // The hub keeps graphs in a folder below their configuration.
  const isInner = basename(at) === 'onnx' && existsSync(join(above, 'config.json'))
  const [folder, path] = isInner ? [above, `onnx/${basename(file)}`] : [at, basename(file)]
  const problem = filePathProblem(path)
  if (problem !== null) throw new PathError(`${file}: ${problem} Rename it.`)
  const files = (await Promise.all(INNER.map(async (inner) => await filesIn(folder, inner)))).flat()
  const taken = /\.gguf$/i.test(path) ? withGguf(files, path) : withGraph(files, path)
  if (taken === undefined) {
    throw new StoreError('bad_source', `${file} is a part of a model; pull the model's own file`)
  }
  return { folder, taken: taken.map((one) => one.path).sort() }
}

async function filesIn (folder: string, inner: string): Promise<Choosable[]> {
  const entries = await readdir(join(folder, inner), { withFileTypes: true }).catch(() => [])
  const paths = entries.filter((entry) => entry.isFile()).map(({ name }) => join(inner, name))
    .filter((path) => filePathProblem(path) === null)
  return await Promise.all(paths.map(async (path) =>
    ({ path, size: (await lstat(join(folder, path))).size })))
}

const stemOf = (name: string): string => name.toLowerCase().replace(QUANTISATION, '')

/** The name of the model in the name of its vision weights or draft model; empty if it has none. */
const namedIn = (path: string): string => stemOf(path.toLowerCase().replace(/\.gguf$/, '')
  .replace(/^(mmproj|draft(er)?|assistant|mtp)[-_.]?|[-_.]draft(er)?$/g, '')).replace(/^model$/, '')

/** A model's parts and the companions that have its name. Undefined if the file is no model. */
function withGguf (files: readonly Choosable[], path: string): Choosable[] | undefined {
  const models = ggufModels(files)
  const model = models.find((one) => one.files.some((file) => file.path === path))
  if (model === undefined) return undefined
  const stem = stemOf(model.name)
  const alone = models.every(({ name }) => stemOf(name) === stem)
  const all = new Set(models.flatMap((one) => one.files))
  const beside = files.filter((file) => !all.has(file) && /\.gguf$/i.test(file.path))
  const own = beside.filter((file) => {
    const named = namedIn(file.path)
    return named === '' ? alone : stem === named || stem.startsWith(`${named}-`)
  })
  const about = files.filter((file) => /^(template|licence|notice)$/.test(roleOf(file.path)) ||
    file.path === 'generation_config.json')
  return [...model.files, ...ggufCompanions([...model.files, ...own]).keys(), ...alone ? about : []]
}

/** A voice with its .onnx.json; another graph with its external data, configuration, tokenizer and voices. */
function withGraph (files: readonly Choosable[], path: string): Choosable[] {
  const own = files.filter((file) => file.path === path || belongsTo(file.path, path))
  if (own.some((file) => file.path === `${path}.json`)) return own
  return [...own, ...files.filter((file) =>
    !partOfGraph(file.path) && (roleOf(file.path) !== 'other' || STYLE_PACK.test(file.path)))]
}
