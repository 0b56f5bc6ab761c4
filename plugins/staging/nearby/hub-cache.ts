/** Reads the cache of the hub's own tools: `models--ORG--NAME/{refs,snapshots,blobs}`. */
import { lstat, opendir, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { inFolder, readInside } from '../files/open.js'
import { filePathProblem } from '../files/names.js'
import { MOST_FILES } from '../files/record.js'
import { StoreError } from '../types.js'
import type { HubFile, LocalHubFile } from '../hub/types.js'

const COMMIT = /^[0-9a-f]{40}$/
/** Matches the target of a snapshot's symbolic link; a blob is named after its SHA-256 or git id. */
const BLOB = /^(?:\.\.\/)+blobs\/([0-9a-f]{64}|[0-9a-f]{40})$/
const REF_BYTES = 4096

const folderOf = (modelId: string): string => `models--${modelId.replace('/', '--')}`

/** Finds files in the caches by the hash in the blob's name, without reading their contents. */
export async function cachedFiles (
  caches: readonly string[], modelId: string, files: readonly HubFile[]
): Promise<LocalHubFile[]> {
  const found: LocalHubFile[] = []
  for (const cache of caches) {
    const root = await realpath(cache).catch(() => undefined)
    if (root === undefined) continue
    for (const file of files) {
      const inner = `${folderOf(modelId)}/blobs/${file.sha256 ?? file.gitSha1!}`
      const there = await lstat(join(root, inner)).catch(() => undefined)
      const known = found.some(({ path }) => path === file.path)
      if (!known && there?.isFile() === true && there.size === file.size) found.push({ ...file, root, inner })
    }
  }
  return found
}

export interface Snapshot { commit: string, files: LocalHubFile[] }

/** A model in the caches, with the hashes from its blob names. Throws StoreError `not_found`. */
export async function readSnapshot (
  caches: readonly string[], modelId: string, revision: string | null
): Promise<Snapshot> {
  for (const cache of caches) {
    const root = await realpath(cache).catch(() => undefined)
    const found = root === undefined ? undefined : await snapshotIn(root, modelId, revision ?? 'main')
    if (found !== undefined) return found
  }
  const places = caches.join(', ') || 'no folder: HOME is not set'
  throw new StoreError('not_found', `the hub's cache of this machine has no ${modelId}` +
    `${revision === null ? '' : `@${revision}`} in ${places}. To download it: \`svc pull ${modelId}\``)
}

async function snapshotIn (root: string, modelId: string, revision: string): Promise<Snapshot | undefined> {
  const model = folderOf(modelId)
  const commit = COMMIT.test(revision) ? revision : await refIn(root, `${model}/refs/${revision}`)
  if (commit === undefined) return undefined
  const files: LocalHubFile[] = []
  const folders = ['']
  for (const folder of folders) {
    const steps = [model, 'snapshots', commit, ...folder === '' ? [] : folder.split('/')]
    const entries = await inFolder(root, steps, false, async (at) => {
      const found: { name: string, folder: boolean, blob: string | undefined }[] = []
      for await (const entry of await opendir(at.path)) {
        const leads = entry.isSymbolicLink() ? await readlink(join(at.path, entry.name)) : ''
        found.push({ name: entry.name, folder: entry.isDirectory(), blob: BLOB.exec(leads)?.[1] })
      }
      return found
    }).catch(() => undefined)
    if (entries === undefined) return undefined
    for (const { name, folder: inner, blob } of entries) {
      const path = folder === '' ? name : `${folder}/${name}`
      if (inner && folders.length < MOST_FILES) folders.push(path)
      if (blob === undefined || filePathProblem(path) !== null) continue
      const stats = await lstat(join(root, model, 'blobs', blob)).catch(() => undefined)
      if (stats?.isFile() !== true) continue
      files.push({
        path, size: stats.size, root, inner: `${model}/blobs/${blob}`,
        sha256: blob.length === 64 ? blob : null, gitSha1: blob.length === 40 ? blob : null
      })
    }
    if (files.length > MOST_FILES) return undefined
  }
  return files.length === 0 ? undefined : { commit, files }
}

async function refIn (root: string, path: string): Promise<string | undefined> {
  const text = (await readInside(root, path, REF_BYTES).catch(() => '')).trim()
  return COMMIT.test(text) ? text : undefined
}
