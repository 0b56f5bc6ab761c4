import { createHash } from 'node:crypto'
import { schemaChecker } from '../../../kernel/api/validate.js'
import { closedObject, openObject } from '../../../kernel/index.js'
import { withTensorSupport } from '../cards/cuts.js'
import { CHUNK_BYTES } from '../types.js'
import { ManifestError, modelIdProblem, shown, filePathProblem, PathError } from './names.js'
import type { ManifestFile, ModelManifest, CopyRecord, HubChoice, LocalCopy, Role } from '../types.js'
import { sync } from './folders.js'
import { putOwnText, readOwn } from './open.js'

export const MOST_FILES = 16_384
export const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

export const size = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const
export const hex = (digits: number) => ({ type: 'string', pattern: `^[0-9a-f]{${digits}}$` })
const problemOf = schemaChecker(closedObject({
  modelId: { type: 'string' },
  // A hub commit or a string chosen by the operator, without control characters.
  revision: { type: 'string', pattern: '^[^\\x00-\\x1f\\x7f-\\x9f]{1,256}$' },
  totalBytes: size,
  chunkBytes: { const: CHUNK_BYTES },
  files: {
    type: 'array', minItems: 1, maxItems: MOST_FILES,
    items: closedObject({
      path: { type: 'string' }, size, sha256: hex(64), chunkSha256: { type: 'array', items: hex(64) }
    })
  }
}))

function refuse (problem: string): never {
  throw new ManifestError(`The manifest is not valid: ${problem}`)
}

/**
 * Validates an untrusted manifest and returns a copy with sorted files. Throws ManifestError with the first
 * problem: shape, names, sizes and numbers of hashes must be consistent. Does not verify the hashes against
 * file contents.
 */
export function checkManifest (value: unknown): ModelManifest {
  const problem = problemOf(value)
  if (problem !== null) refuse(problem)
  const { files, ...about } = structuredClone(value as ModelManifest)
  const idProblem = modelIdProblem(about.modelId)
  if (idProblem !== null) refuse(`modelId: ${idProblem}`)
  files.forEach(checkFile)
  refuseCollisions(files)
  const sum = files.reduce((bytes, file) => bytes + BigInt(file.size), 0n)
  if (sum !== BigInt(about.totalBytes)) {
    refuse(`totalBytes is ${about.totalBytes}, but the files have ${sum} bytes`)
  }
  // Chunks are numbered in this order, which must be the same on every node.
  files.sort((a, b) => a.path < b.path ? -1 : 1)
  return { ...about, files }
}

function checkFile ({ path, size, sha256, chunkSha256 }: ManifestFile, i: number): void {
  const problem = filePathProblem(path)
  if (problem !== null) refuse(`files[${i}].path: ${problem}`)
  const chunks = Math.ceil(size / CHUNK_BYTES)
  if (chunkSha256.length !== chunks) {
    refuse(`files[${i}].chunkSha256 must be a list of ${chunks} hashes for ${size} bytes`)
  }
  if (size === 0 && sha256 !== EMPTY_SHA256) refuse(`files[${i}].sha256 is not the hash of an empty file`)
  if (chunks === 1 && chunkSha256[0] !== sha256) {
    refuse(`files[${i}].sha256 differs from the hash of its only chunk`)
  }
}

/** Refuses paths that differ only in case, and a path that is both a file and a folder. */
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

/**
 * The digest of a checked manifest: 64 hex digits over the model id and the path, size and hashes of each
 * file, independent of the order of files. Two revisions with the same bytes have the same digest. It
 * includes the chunk hashes because chunks are verified by them alone.
 */
export function manifestDigest (manifest: ModelManifest): string {
  const hash = createHash('sha256').update(`svc manifest 1\n${manifest.modelId}\n`)
  const lines = manifest.files.map(({ path, size, sha256, chunkSha256 }) =>
    `${path}\t${size}\t${sha256}\t${chunkSha256.join(',')}\n`)
  for (const line of lines.sort()) hash.update(line)
  return hash.digest('hex')
}

export const fileOf = ({ files }: ModelManifest, path: string): ManifestFile | undefined =>
  files.find((file) => file.path === path)

export const RECORD_FILE = '.svc-record.json'
const FORMAT = 1
/** Maximum size of a record in bytes, well above that of a model with 16,384 files and 10 TB. */
const MOST_BYTES = 64 * 1024 * 1024

const text = { type: 'string' } as const
const recordProblem = schemaChecker(openObject({
  manifest: { type: 'object' }, card: openObject({ modelId: text }), source: text, publishedAt: text
}))

/** Validates a record, but checks only the model id of its card. Throws ManifestError or PathError. */
export function checkRecord (value: unknown, modelId: string): CopyRecord {
  const problem = recordProblem(value)
  if (problem !== null) throw new PathError(`the record of ${shown(modelId)} is not valid: ${problem}`)
  const { manifest, card, source, choice, publishedAt } = value as CopyRecord
  const checked = checkManifest(manifest)
  const other = [checked, card].find((one) => one.modelId !== modelId)
  if (other !== undefined) {
    throw new PathError(`the record is for ${shown(other.modelId)}, not for ${shown(modelId)}`)
  }
  const chosen = choiceIn(choice)
  return {
    manifest: checked, card: withTensorSupport(card), source, publishedAt,
    ...chosen === null ? {} : { choice: chosen }
  }
}

/** Reads the choice of hub files; ignores an invalid one, because the digest alone identifies the files. */
function choiceIn (value: unknown): HubChoice | null {
  const { allow = null, variant = null } = (value ?? {}) as { allow?: unknown, variant?: unknown }
  const patterns = Array.isArray(allow) && allow.every((one) => typeof one === 'string') ? allow : null
  const word = typeof variant === 'string' ? variant : null
  return patterns === null && word === null ? null : { allow: patterns, variant: word }
}

/** Reads the record in a folder; null if it is missing, invalid, or not for `modelId`. Never throws. */
export async function readRecord (folder: string, modelId?: string): Promise<CopyRecord | null> {
  try {
    const value = JSON.parse(await readOwn(folder, RECORD_FILE, MOST_BYTES)) as {
      format?: unknown, manifest?: { modelId?: string }
    } | null
    return value?.format === FORMAT ? checkRecord(value, modelId ?? String(value.manifest?.modelId)) : null
  } catch {
    // Treat an unreadable record as missing.
    return null
  }
}

/** Replaces the record in a folder atomically. */
export async function writeRecord (folder: string, record: CopyRecord): Promise<void> {
  await putOwnText(folder, RECORD_FILE, `${JSON.stringify({ format: FORMAT, ...record })}\n`)
  await sync(folder)
}

export function localCopy (
  where: Role | 'bundled', directory: string, { publishedAt: downloadedAt, ...record }: CopyRecord
): LocalCopy {
  const { modelId } = record.manifest
  const kind = where === 'beside' ? 'staged' : where
  return { ...record, kind, modelId, directory, digest: manifestDigest(record.manifest), downloadedAt }
}
