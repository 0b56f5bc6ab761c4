import { constants } from 'node:fs'
import { copyFile, lstat, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { ModelCard } from '../../../kernel/index.js'
import { filePathProblem } from '../files/names.js'
import { inFolder, openInside, pathOf } from '../files/open.js'
import { keepOnly } from '../files/seal.js'
import { manifestDigest } from '../files/record.js'
import { overlap } from '../files/folders.js'
import { downloadFromHub, inTurn } from '../hub/download.js'
import type { HubClient, HubSelection } from '../hub/types.js'
import type { HubChoice, ModelManifest } from '../types.js'
import { copyTree, measure, bytesIn, hashTree, makeReadOnly, makeWritable } from './folder.js'
import type { Download } from './download.js'
import { asStoreError, StoreError, parseSource } from './types.js'
import { writeJob } from './job-file.js'
import type { StoreIndex } from './store-index.js'
import type { Derive, StoreEntry, StoreOptions } from './types.js'

/** What a download works with. */
export interface FetchParts { options: StoreOptions, index: StoreIndex }

/** Bytes that lie in the incoming folder now. */
interface Fetched {
  manifest: ModelManifest
  source: string
  choice?: HubChoice
  licence?: string
  languages?: string[]
}

/** Failures of the hub that say nothing about the model. */
const UNREACHABLE = new Set(['unavailable', 'stalled', 'rate_limited'])

/**
 * Fetches a model into the incoming folder and publishes it; does nothing when the store has it already.
 * Rejects with what went wrong; what was fetched stays for the next run.
 */
export async function fetchModel (parts: FetchParts, job: Download): Promise<StoreEntry> {
  const { options: { root, clock }, index } = parts
  const { modelId, signal } = job
  signal.throwIfAborted()
  const folder = await root.begin(modelId)
  await writeJob(folder, job.record('active'))
  await makeWritable(folder).catch(async () => {
    // It holds what no download leaves there, a link for example.
    await root.discard(modelId)
    await root.begin(modelId)
    await writeJob(folder, job.record('active'))
  })
  const fetched = await obtain(parts, job, folder)
  if ('directory' in fetched) {
    await root.discard(modelId)
    return fetched
  }
  const { manifest, source, choice } = fetched
  const card = await cardOf(parts.options.derive, job, folder, fetched)
  await makeReadOnly(folder, manifest)
  signal.throwIfAborted()
  const publishedAt = new Date(clock.now()).toISOString()
  const record = { manifest, card, source, publishedAt, ...choice === undefined ? {} : { choice } }
  index.put(await root.publish(modelId, record), record)
  return index.get(modelId)!
}

async function obtain (parts: FetchParts, job: Download, folder: string): Promise<Fetched | StoreEntry> {
  const source = parseSource(job.request.source)
  switch (source.kind) {
    case 'hub': return await fromHub(parts, job, folder)
    case 'file': return await fromFolder(parts, job, folder, source.path)
    case 'node': return await fromNode(parts, job, folder, source.installId)
  }
}

/** Waits for its turn and for room, then runs; an abort while it waits is felt at once. */
async function admitted<T> (
  { options: { admit } }: FetchParts, job: Download, totalBytes: number, resumableBytes: number,
  run: () => Promise<T>
): Promise<T> {
  const { modelId, signal } = job
  signal.throwIfAborted()
  job.sized(totalBytes)
  let begun = false
  const turn = admit({ modelId, totalBytes, resumableBytes }, async () => {
    begun = true
    signal.throwIfAborted()
    job.begin()
    return await run()
  })
  return await new Promise<T>((resolve, reject) => {
    signal.addEventListener('abort', () => { if (!begun) reject(signal.reason as Error) }, { once: true })
    turn.then(resolve, reject)
  })
}

async function fromHub (parts: FetchParts, job: Download, folder: string): Promise<Fetched | StoreEntry> {
  const { options: { hub, clock, random, space }, index } = parts
  if (hub === null) throw new StoreError('no_hub', NO_HUB)
  const entry = index.get(job.modelId)
  const selection = await choose(hub, job, entry)
  if (selection === null || (entry !== undefined && isSame(entry, selection))) return entry!
  job.selection = selection
  await writeJob(folder, job.record('active'))
  await keepOnly(folder, new Set(selection.files.map(({ path }) => path)))
  const { totalBytes, commit, licence, languages } = selection
  const run = async (): Promise<ModelManifest> => {
    if (entry !== undefined) await reuse(entry, selection, folder, job.signal)
    return await downloadFromHub({
      client: hub, selection, folder, signal: job.signal, clock, random,
      onProgress: (progress) => { job.progress(progress) },
      ...space === undefined ? {} : { space }
    })
  }
  const manifest = await inTurn(clock, job.signal, async () =>
    await admitted(parts, job, totalBytes, await bytesIn(folder), run))
  const { allow, variant } = job.request
  return {
    manifest, source: `hub:${hub.url}@${commit}`, languages,
    ...allow === null && variant === null ? {} : { choice: { allow, variant } },
    ...licence === null ? {} : { licence }
  }
}

/** What to say where no hub may be asked. */
export const NO_HUB = 'this node asks no public hub; enable model_store.hub in svc.yaml, or pull from ' +
  'file:///absolute/folder or node:<install id>'

/**
 * The files of the commit this job is about. Null when the hub cannot be reached, nothing particular was
 * asked for, and the store has the model: then that copy is the answer.
 */
async function choose (
  hub: HubClient, job: Download, entry: StoreEntry | undefined
): Promise<HubSelection | null> {
  if (job.selection !== null) return job.selection
  const { revision, allow, variant } = job.request
  try {
    return await hub.resolve(job.modelId, {
      signal: job.signal,
      ...revision === null ? {} : { revision },
      ...allow === null ? {} : { allow },
      ...variant === null ? {} : { variant }
    })
  } catch (error) {
    const plain = revision === null && allow === null && variant === null
    if (entry !== undefined && plain && UNREACHABLE.has(asStoreError(error).reason)) return null
    throw error
  }
}

/** Whether a copy is this very choice of files of this commit. Pure. */
function isSame ({ record: { manifest, source } }: StoreEntry, selection: HubSelection): boolean {
  if (!source.startsWith('hub:') || manifest.revision !== selection.commit) return false
  const sizes = new Map(manifest.files.map(({ path, size }) => [path, size]))
  return sizes.size === selection.files.length &&
    selection.files.every(({ path, size }) => sizes.get(path) === size)
}

/**
 * Files that look the same in the copy the store has are copied from there, so that an update fetches what
 * changed only. The download hashes them again and fetches anew what is not right.
 */
async function reuse (
  entry: StoreEntry, selection: HubSelection, folder: string, signal: AbortSignal
): Promise<void> {
  const old = new Map(entry.record.manifest.files.map((file) => [file.path, file]))
  for (const { path, size, sha256 } of selection.files) {
    signal.throwIfAborted()
    const file = old.get(path)
    if (file?.size !== size || (sha256 !== null && sha256 !== file.sha256)) continue
    if (filePathProblem(path) !== null || await sizeOf(join(folder, path)) === size) continue
    const steps = path.split('/')
    const name = steps.pop()!
    await inFolder(folder, steps, true, async (inner) => {
      await rm(join(inner.path, name), { force: true })
    })
    const target = await openInside(folder, path, 'create')
    try {
      const to = pathOf(target, join(folder, path))
      await copyFile(join(entry.directory, path), to, constants.COPYFILE_FICLONE)
      await target.chmod(0o600)
    } finally {
      await target.close()
    }
  }
}

const sizeOf = async (path: string): Promise<number> => (await lstat(path).catch(() => null))?.size ?? -1

async function fromFolder (
  parts: FetchParts, job: Download, folder: string, path: string
): Promise<Fetched | StoreEntry> {
  const { modelId, signal } = job
  const options = { modelId, revision: job.request.revision ?? 'local', signal }
  await refuseOwn(parts.options.root.root, path)
  const { totalBytes, sizes } = await measure(path)
  const entry = parts.index.get(modelId)
  if (entry !== undefined && await holds(entry, path, sizes, options)) return entry
  const manifest = await admitted(parts, job, totalBytes, await bytesIn(folder), async () => {
    const onProgress = (bytes: number, files: number): void => {
      job.progress({ bytes, totalBytes, files, totalFiles: sizes.size })
    }
    return await copyTree(path, folder, { ...options, onProgress })
  })
  return { manifest, source: 'file' }
}

/** A folder in the store is no source of it, nor is one that the store lies in. */
async function refuseOwn (root: string, path: string): Promise<void> {
  // What cannot be resolved cannot be read either, and that is told by who reads it.
  if (!await overlap(root, path).catch(() => false)) return
  throw new StoreError('bad_source', `${path} overlaps with the store at ${root}; give a folder elsewhere`)
}

/** Whether the store has exactly what lies in a folder. Hashes the folder only when all sizes fit. */
async function holds (
  { record: { manifest } }: StoreEntry, path: string, sizes: ReadonlyMap<string, number>,
  options: { modelId: string, revision: string, signal: AbortSignal }
): Promise<boolean> {
  if (manifest.files.length !== sizes.size) return false
  if (!manifest.files.every((file) => sizes.get(file.path) === file.size)) return false
  return manifestDigest(await hashTree(path, options)) === manifestDigest(manifest)
}

async function fromNode (
  parts: FetchParts, job: Download, folder: string, installId: string
): Promise<Fetched> {
  const { fromNode: fetch } = parts.options
  if (fetch === undefined) throw new StoreError('bad_source', 'this node has no other nodes to copy from')
  const manifest = await fetch(
    job.modelId, installId, folder, job.signal, (progress) => { job.progress(progress) },
    async (totalBytes, run) => await admitted(parts, job, totalBytes, await bytesIn(folder), run)
  )
  return { manifest, source: 'node' }
}

/** What the files say of the model. */
async function cardOf (derive: Derive, job: Download, folder: string, fetched: Fetched): Promise<ModelCard> {
  const { manifest, licence, languages } = fetched
  const { modelId } = job
  try {
    return await derive(folder, {
      modelId,
      revision: manifest.revision,
      files: manifest.files,
      ...licence === undefined ? {} : { licence },
      ...languages === undefined ? {} : { languages }
    })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new StoreError('unusable_model', `${modelId} was fetched, but nothing can run it: ${why}`,
      { cause: error })
  }
}
