/** Reads Ollama's local models: `manifests/HOST/NAMESPACE/NAME/TAG` lists blobs by their hash. */
import { lstat, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { readInside } from '../files/open.js'
import { filePathProblem } from '../files/names.js'
import { StoreError } from '../types.js'
import type { LocalHubFile } from '../hub/types.js'

export interface OllamaModel {
  files: LocalHubFile[]
  /** Descriptions of the layers that svc does not import, such as the template. */
  unused: string[]
}

const HOST = 'registry.ollama.ai'
const KIND = 'application/vnd.ollama.image.'
const MANIFEST_BYTES = 4 * 1024 * 1024
const MOST_NAMED = 20

/** File names for layer types; UNUSED describes the layers that svc does not import. */
const FILES: Readonly<Record<string, string>> = {
  model: 'model.gguf', projector: 'mmproj.gguf', license: 'LICENSE'
}
const UNUSED: Readonly<Record<string, string>> = {
  template: 'the template: svc uses the one in the GGUF file',
  system: 'the system prompt: set your own, as with svc run --system',
  params: 'the parameters: set them in the request',
  messages: 'the example messages'
}

/** The manifest path for a name such as `[host/][namespace/]name[:tag]`; undefined for an invalid name. */
export function manifestPath (name: string): string | undefined {
  const [, path = '', tag = 'latest'] = /^([^:]+)(?::([^:/]+))?$/.exec(name) ?? []
  const parts = path.split('/')
  const before = [[HOST, 'library'], [HOST]][parts.length - 1] ?? []
  const whole = [...before, ...parts]
  const inner = ['manifests', ...whole, tag].join('/')
  return path === '' || whole.length !== 3 || filePathProblem(inner) !== null ? undefined : inner
}

/** Reads an Ollama model. Throws StoreError `bad_source`, `not_found`, `unusable_model`. */
export async function readOllama (folders: readonly string[], name: string): Promise<OllamaModel> {
  const inner = manifestPath(name)
  if (inner === undefined) {
    throw new StoreError('bad_source', `"${name.slice(0, 100)}" is not an Ollama model; ` +
      'write ollama:NAME or ollama:NAME:TAG, as in `ollama list`')
  }
  const real = folders.map(async (folder) => await realpath(folder).catch(() => undefined))
  const roots = (await Promise.all(real)).filter((root) => root !== undefined)
  for (const root of roots) {
    const text = await readInside(root, inner, MANIFEST_BYTES).catch(() => undefined)
    if (text !== undefined) return await modelOf(root, name, text)
  }
  const there = (await Promise.all(roots.map(namesIn))).flat().sort()
  const shown = there.slice(0, MOST_NAMED).join(', ')
  throw new StoreError('not_found', `Ollama has no ${name} in ` +
    `${folders.join(', ') || 'no folder: HOME is not set'}. ` +
    (there.length === 0 ? 'To use another folder, set OLLAMA_MODELS for the node' : `It has ${shown}`))
}

interface Layer { mediaType?: unknown, digest?: unknown, size?: unknown }

async function modelOf (root: string, name: string, text: string): Promise<OllamaModel> {
  const broken = (why: string): StoreError => new StoreError('unusable_model',
    `Ollama's ${name} cannot be used here: ${why}. Pull a GGUF version from the hub: svc pull ORG/NAME`)
  let layers: unknown
  try {
    layers = (JSON.parse(text) as { layers?: unknown } | null)?.layers
  } catch { /* reported below */ }
  if (!Array.isArray(layers)) throw broken('its manifest is invalid')
  const model: OllamaModel = { files: [], unused: [] }
  for (const { mediaType, digest, size } of layers as Layer[]) {
    const kind = String(mediaType).startsWith(KIND) ? String(mediaType).slice(KIND.length) : String(mediaType)
    const path = Object.hasOwn(FILES, kind) ? FILES[kind] : undefined
    if (path === undefined) {
      if (!Object.hasOwn(UNUSED, kind)) throw broken(`it has an unsupported part, ${kind.slice(0, 100)}`)
      model.unused.push(UNUSED[kind]!)
      continue
    }
    const sha256 = /^sha256:([0-9a-f]{64})$/.exec(String(digest))?.[1]
    if (sha256 === undefined || !Number.isSafeInteger(size)) throw broken('its manifest has no hash')
    const same = model.files.filter((file) => file.path.split('.')[0] === path.split('.')[0])
    if (same.length > 0 && path !== 'LICENSE') throw broken(`it has several files ${path}`)
    const inner = `blobs/sha256-${sha256}`
    const there = await lstat(join(root, inner)).catch(() => undefined)
    if (there?.isFile() !== true || there.size !== size) {
      throw broken(`${join(root, inner)} is missing or damaged; run \`ollama pull ${name}\``)
    }
    model.files.push({
      path: same.length === 0 ? path : `${path}.${same.length + 1}`, size: there.size, sha256, gitSha1: null,
      root, inner
    })
  }
  if (!model.files.some(({ path }) => path === 'model.gguf')) throw broken('it has no GGUF file')
  return model
}

async function namesIn (root: string): Promise<string[]> {
  const found: string[] = []
  const base = join(root, 'manifests')
  for (const entry of await readdir(base, { recursive: true, withFileTypes: true }).catch(() => [])) {
    if (!entry.isFile()) continue
    const steps = join(entry.parentPath, entry.name).slice(base.length + 1).split('/')
    const [host, namespace, name, tag] = steps
    if (steps.length !== 4) continue
    const space = host !== HOST ? `${host}/${namespace}/` : namespace === 'library' ? '' : `${namespace}/`
    found.push(`${space}${name}:${tag}`)
  }
  return found
}
