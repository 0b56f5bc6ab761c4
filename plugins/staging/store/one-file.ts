import { existsSync } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { roleOf } from '../cards/found.js'
import { ggufCompanions, ggufModels } from '../cards/gguf-parts.js'
import { filePathProblem, PathError } from '../files/names.js'
import { belongsTo, partOfGraph, QUANTISATION } from '../hub/select-weights.js'
import { StoreError } from '../types.js'
import type { Choosable } from '../hub/select-weights.js'

/** Folders beside weights whose files may belong to them. */
const INNER = ['', 'onnx', 'voices', '1_Pooling']
const STYLE_PACK = /^voices(\/|[^/]*\.(bin|npz)$)/

/** The files of the model that a GGUF or ONNX file belongs to. Throws StoreError `bad_source`, PathError. */
export async function modelOfFile (file: string): Promise<{ folder: string, taken: string[] }> {
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

/**
 * All parts of the model with its vision weights and draft model. If other models are beside it, only those
 * files belong to it that have its name. Undefined if the file is no model.
 */
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
