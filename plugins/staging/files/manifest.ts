import { createHash } from 'node:crypto'
import { CHUNK_BYTES } from '../types.js'
import { ManifestError } from './errors.js'
import { modelIdProblem } from './ids.js'
import { shown } from './names.js'
import { filePathProblem } from './paths.js'
import type { ManifestFile, ModelManifest } from '../types.js'

/** The most files a model may have. */
export const MOST_FILES = 16_384
/** sha256 of no bytes at all. */
export const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

const HASH = /^[0-9a-f]{64}$/
const REVISION = /^[^\x00-\x1f\x7f-\x9f]{1,256}$/
const FIELDS = ['modelId', 'revision', 'totalBytes', 'chunkBytes', 'files']
const FILE_FIELDS = ['path', 'size', 'sha256', 'chunkSha256']

function refuse (problem: string): never {
  throw new ManifestError(`The manifest is not valid: ${problem}`)
}

/**
 * The manifest in a foreign value, as a copy that holds nothing else. Throws ManifestError with the first
 * problem: shape, names, sizes and counts of hashes must all fit together. Whether the hashes are those of
 * the files is for the reader of the files to see.
 */
export function checkManifest (value: unknown): ModelManifest {
  const { modelId, revision, totalBytes, chunkBytes, files } = fieldsOf(value, FIELDS, 'it')
  const problem = modelIdProblem(modelId as string)
  if (problem !== null) refuse(`modelId: ${problem}`)
  if (typeof revision !== 'string' || !REVISION.test(revision)) {
    refuse('revision must be 1 to 256 characters without control characters')
  }
  if (chunkBytes !== CHUNK_BYTES) refuse(`chunkBytes must be ${CHUNK_BYTES}`)
  if (!Array.isArray(files) || files.length === 0) refuse('files must be a list of at least one file')
  if (files.length > MOST_FILES) refuse(`it names ${files.length} files, at most ${MOST_FILES} are allowed`)
  const checked = files.map((file: unknown, i) => checkFile(file, `files[${i}]`))
  refuseCollisions(checked)
  refuseWrongSum(checked, totalBytes)
  // One order everywhere: chunks are numbered by it, on every node that has the same content.
  checked.sort((a, b) => a.path < b.path ? -1 : 1)
  return {
    modelId: modelId as string, revision, totalBytes: totalBytes as number, chunkBytes, files: checked
  }
}

/** The fields of a plain object that has exactly these. */
function fieldsOf (value: unknown, names: readonly string[], where: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    refuse(`${where} must be an object`)
  }
  const keys = Object.keys(value)
  const unknown = keys.find((key) => !names.includes(key))
  if (unknown !== undefined) refuse(`${where} has a field ${shown(unknown)} that does not belong there`)
  const missing = names.find((name) => !keys.includes(name))
  if (missing !== undefined) refuse(`${where} has no ${missing}`)
  return value as Record<string, unknown>
}

function checkFile (value: unknown, where: string): ManifestFile {
  const { path, size, sha256, chunkSha256 } = fieldsOf(value, FILE_FIELDS, where)
  const problem = filePathProblem(path as string)
  if (problem !== null) refuse(`${where}.path: ${problem}`)
  if (!isSize(size)) refuse(`${where}.size must be a whole number of bytes`)
  if (!isHash(sha256)) refuse(`${where}.sha256 must be 64 lowercase hex digits`)
  const chunks = Math.ceil(size / CHUNK_BYTES)
  if (!Array.isArray(chunkSha256) || chunkSha256.length !== chunks) {
    refuse(`${where}.chunkSha256 must be a list of ${chunks} hashes for ${size} bytes`)
  }
  if (!chunkSha256.every(isHash)) refuse(`${where}.chunkSha256 must hold 64 lowercase hex digits each`)
  if (size === 0 && sha256 !== EMPTY_SHA256) refuse(`${where}.sha256 is not the hash of an empty file`)
  if (chunks === 1 && chunkSha256[0] !== sha256) {
    refuse(`${where}.sha256 differs from the hash of its only chunk`)
  }
  return { path: path as string, size, sha256, chunkSha256: [...chunkSha256] as string[] }
}

const isSize = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
const isHash = (value: unknown): value is string => typeof value === 'string' && HASH.test(value)

/** No two paths may meet on a file system that ignores case, and no file may be another's folder. */
function refuseCollisions (files: readonly ManifestFile[]): void {
  const taken = new Map<string, { path: string, kind: 'file' | 'folder' }>()
  for (const { path } of files) {
    for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1)) {
      const folder = path.slice(0, slash)
      const other = taken.get(folder.toLowerCase())
      if (other === undefined) taken.set(folder.toLowerCase(), { path: folder, kind: 'folder' })
      else if (other.kind === 'file') refuse(`${shown(other.path)} is both a file and a folder`)
      else if (other.path !== folder) refuse(`${shown(folder)} and ${shown(other.path)} differ only in case`)
    }
    const other = taken.get(path.toLowerCase())
    if (other?.kind === 'folder') refuse(`${shown(path)} is both a file and a folder`)
    if (other !== undefined) refuse(`${shown(path)} and ${shown(other.path)} are the same file`)
    taken.set(path.toLowerCase(), { path, kind: 'file' })
  }
}

function refuseWrongSum (files: readonly ManifestFile[], totalBytes: unknown): void {
  if (!isSize(totalBytes)) refuse('totalBytes must be a whole number of bytes')
  const sum = files.reduce((bytes, file) => bytes + BigInt(file.size), 0n)
  if (sum !== BigInt(totalBytes)) refuse(`totalBytes is ${totalBytes}, its files have ${sum} bytes together`)
}

/**
 * The id of a checked manifest's content: 64 hex digits over the model and, of each file, path, size and all
 * hashes, in any order of files. Two revisions of the same bytes have the same digest. Chunks are verified by
 * their own hashes alone, so those belong to the identity too.
 */
export function manifestDigest (manifest: ModelManifest): string {
  const hash = createHash('sha256').update(`svc manifest 1\n${manifest.modelId}\n`)
  const lines = manifest.files.map(({ path, size, sha256, chunkSha256 }) =>
    `${path}\t${size}\t${sha256}\t${chunkSha256.join(',')}\n`)
  for (const line of lines.sort()) hash.update(line)
  return hash.digest('hex')
}
