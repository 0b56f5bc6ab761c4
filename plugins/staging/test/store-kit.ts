import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { systemClock, type Logger, type ModelCard } from '../../../kernel/index.js'
import { ModelRoot } from '../files/root.js'
import { hashFile } from '../files/hash.js'
import { walkModel } from '../files/walk.js'
import { createHubClient, type HubClient } from '../hub/client.js'
import { Store } from '../store/store.js'
import { statusOf, type Download, type DownloadStatus } from '../store/download.js'
import { FreeSpace } from '../space/free-space.js'
import { StoreError, type LocalCopy } from '../types.js'
import type { Derive, StoreOptions } from '../store/types.js'
import type { FakeHub } from './hub-kit.js'

export const ID = 'acme/voice'
export const MIB = 1024 * 1024

interface Test { teardown (fn: () => unknown): void }

export function scratch (t: Test): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'svc-store-')))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  return folder
}

export function write (folder: string, files: Record<string, string | Buffer>): string {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  return folder
}

/** Bytes that differ at each offset, the same for the same seed. */
export function bytes (size: number, seed = 1): Buffer {
  const out = Buffer.allocUnsafe(size)
  let x = seed * 2654435761 >>> 0
  for (let i = 0; i < size; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0
    out[i] = x >>> 24
  }
  return out
}

/** A card reader that accepts every folder with a `model.onnx`. */
export const derive: Derive = async (_folder, { modelId, revision, files }) => {
  const known = files.some(({ path }) => path === 'model.onnx')
  if (!known) throw new Error('cannot tell what this is: no model.onnx')
  return { modelId, revision, title: 'a test', files: [] as ModelCard['files'] } as ModelCard
}

export function memoryLog (): Logger & { lines: [string, Record<string, unknown>][] } {
  const lines: [string, Record<string, unknown>][] = []
  const keep = (fields: Record<string, unknown>, message: string): void => { lines.push([message, fields]) }
  return { lines, debug: keep, info: keep, warn: keep, error: keep, fatal: keep }
}

export function clientOf (hub: FakeHub): HubClient {
  return createHubClient({
    url: hub.url, redirectHosts: [hub.cdnHost], clock: systemClock, random: () => 0.01, limits: { retries: 0 }
  })
}

/** FreeSpace without queues, so that transfers to one disk run in parallel. */
class FreeRoom extends FreeSpace {
  override async alone<T> (
    _path: string, _signal: AbortSignal | undefined, work: () => Promise<T>
  ): Promise<T> { return await work() }
}

export async function open (t: Test, folder: string, options: Partial<StoreOptions> = {}): Promise<Store> {
  const store = new Store({
    root: new ModelRoot({ root: folder, clock: options.clock ?? systemClock, role: 'store' }),
    clock: systemClock,
    random: () => 0.01,
    hub: null,
    derive,
    freeSpace: new FreeRoom(0),
    local: { bundled: new Map() },
    fromNode: async () => { throw new Error('there are no other nodes') },
    log: memoryLog(),
    hubCache: null,
    onChange: () => {},
    ...options
  })
  await store.open()
  t.teardown(async () => { await store.close() })
  return store
}

/** Imports a folder into the store; rejects with the failure of the download. */
export async function importFolder (store: Store, path: string, modelId = ID): Promise<LocalCopy> {
  const { status, reason, error } = await done(store.start(modelId, { source: pathToFileURL(path).href }))
  if (status === 'complete') return store.get(modelId)!
  throw new StoreError(reason ?? status, error ?? status)
}

export async function done (job: Download): Promise<DownloadStatus> {
  await job.ended
  return statusOf(job)
}

export async function ended (store: Store, modelId: string): Promise<DownloadStatus> {
  await until(() => !['pending', 'downloading'].includes(store.status(modelId).status))
  return store.status(modelId)
}

/** Polls until the condition holds; the test's own timeout ends the loop. */
export async function until (what: () => boolean): Promise<void> {
  while (!what()) await new Promise((resolve) => { setImmediate(resolve) })
}

export function gate (): { opened: Promise<void>, open: () => void } {
  let open = (): void => undefined
  const opened = new Promise<void>((resolve) => { open = resolve })
  return { opened, open }
}

export async function contents (folder: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const { path } of await walkModel(folder)) found[path] = (await hashFile(join(folder, path))).sha256
  return found
}

export const names = (folder: string): string[] => readdirSync(folder).sort()

export class RoomWatch extends FreeSpace {
  readonly #look: (bytes: number) => Promise<void>
  constructor (look: (bytes: number) => Promise<void>) {
    super(0)
    this.#look = look
  }

  override async check (_root: unknown, bytes: number): Promise<void> { await this.#look(bytes) }
}
