import { createHash } from 'node:crypto'
import { CHUNK_BYTES } from '../types.js'
import { ManifestError, modelIdProblem, shown, filePathProblem, PathError } from './names.js'
import type { ManifestFile, ModelManifest, CopyRecord, HubChoice } from '../types.js'
import { sync } from './folders.js'
import { putOwn, readOwn } from './open.js'

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

/** The file in a copy that says what the copy is. */
export const RECORD_FILE = '.svc-record.json'
const FORMAT = 1
/** A model of 16,384 files and 10 TB stays below that. */
const MOST_BYTES = 64 * 1024 * 1024

/**
 * The record in a value, checked: its manifest by checkManifest, its card as far as the model's id. Throws
 * ManifestError or PathError when it is none of this model.
 */
export function checkRecord (value: unknown, modelId: string): CopyRecord {
  const { manifest, card, source, choice, publishedAt } =
    (value ?? {}) as Partial<Record<keyof CopyRecord, unknown>>
  const checked = checkManifest(manifest)
  if (checked.modelId !== modelId) {
    throw new PathError(`the record is of ${shown(checked.modelId)}, not of ${shown(modelId)}`)
  }
  const named = typeof card === 'object' && card !== null && 'modelId' in card
  if (!named || card.modelId !== modelId) {
    throw new PathError(`the record of ${shown(modelId)} has no card of that model`)
  }
  if (typeof source !== 'string' || typeof publishedAt !== 'string') {
    throw new PathError(`the record of ${shown(modelId)} does not say where or when it came from`)
  }
  const chosen = choiceIn(choice)
  return {
    manifest: checked, card: card as CopyRecord['card'], source, publishedAt,
    ...chosen === null ? {} : { choice: chosen }
  }
}

/** What cannot be read counts as none: the digest says whether the files are right. */
function choiceIn (value: unknown): HubChoice | null {
  const { allow = null, variant = null } = (value ?? {}) as { allow?: unknown, variant?: unknown }
  const patterns = Array.isArray(allow) && allow.every((one) => typeof one === 'string') ? allow : null
  const word = typeof variant === 'string' ? variant : null
  return patterns === null && word === null ? null : { allow: patterns, variant: word }
}

/**
 * The record in a folder, or null when there is no valid one, or none of that model (any model's when none is
 * named). Never throws.
 */
export async function readRecord (folder: string, modelId?: string): Promise<CopyRecord | null> {
  try {
    const value = JSON.parse(await readOwn(folder, RECORD_FILE, MOST_BYTES)) as {
      format?: unknown, manifest?: { modelId?: string }
    } | null
    return value?.format === FORMAT ? checkRecord(value, modelId ?? String(value.manifest?.modelId)) : null
  } catch {
    // Whatever is wrong with it, nobody vouches for the copy then.
    return null
  }
}

/** Writes a record into a folder: at any moment the old one or the new one is there, whole. */
export async function writeRecord (folder: string, record: CopyRecord): Promise<void> {
  await putOwn(folder, RECORD_FILE, async (file) => {
    await file.writeFile(`${JSON.stringify({ format: FORMAT, ...record })}\n`)
    await file.sync()
    await file.close()
  })
  await sync(folder)
}
