import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { chromeText, readHead, TRACE_ID, type TraceHead } from './trace-file.js'
import type { TraceRecord } from './recording.js'
import type { Clock, FromSchema, Logger } from '../../kernel/index.js'
import type { stored } from './routes.js'
import type { TraceCounters } from './service.js'

export type TraceEntry = FromSchema<typeof stored>

export interface TraceStoreParts {
  /** Absolute path of the trace folder, which is created with the first trace. */
  folder: string
  clock: Clock
  log: Logger
  counters: TraceCounters
  /** Limit for the total size of all files, beyond which the oldest are removed. */
  maxBytes: number
  /** Replaced by tests that simulate a full disk. */
  write?: (path: string, text: string) => Promise<void>
}

/** Maximum number of traces queued for writing; any more are dropped. */
const WAITING_MAX = 64
/** Maximum number of stored files, whatever their size; the oldest are removed. */
const FILES_MAX = 10_000
/** Bytes at the start of a file that contain the trace's summary. */
const HEAD_BYTES = 16 * 1024
/** Shortest interval in ms between warnings about a failing disk. */
const WARN_INTERVAL_MS = 60_000
const DAY_MS = 86_400_000

export class TraceStore {
  readonly #parts: TraceStoreParts
  readonly #saved = new Map<string, TraceEntry>()
  #bytes = 0
  /** Traces waiting to be written, oldest first. */
  readonly #waiting = new Map<string, TraceRecord>()
  #writing: Promise<void> | null = null
  #warnedMs = -Infinity

  constructor (parts: TraceStoreParts) { this.#parts = parts }

  /** Reads the existing files; ignores those that are not traces. */
  async load (): Promise<void> {
    const found: TraceEntry[] = []
    for (const name of await this.#names()) {
      if (name.endsWith('.tmp')) await rm(join(this.#parts.folder, name), { force: true })
      else if (name.endsWith('.json')) found.push(...await this.#readEntry(name))
    }
    // Traces that were saved during this scan are newer than those it found, so they come last.
    for (const entry of [...found.sort(byAge), ...this.#saved.values()]) this.#keep(entry)
  }

  /** Queues a trace for writing; drops it when the queue is full. */
  put (record: TraceRecord): void {
    const { counters } = this.#parts
    counters.recorded++
    counters.droppedSpans += record.droppedSpans
    if (!TRACE_ID.test(record.taskId)) return
    if (this.#waiting.size >= WAITING_MAX) {
      counters.droppedQueue++
      return
    }
    this.#waiting.set(record.taskId, record)
    this.#writing ??= this.#writeAll()
  }

  list (): TraceEntry[] {
    const waiting = [...this.#waiting.values()].map((record) => entryOf(record, 0))
    const all = new Map([...this.#saved.values(), ...waiting].map((entry) => [entry.taskId, entry]))
    return [...all.values()].sort((a, b) => byAge(b, a))
  }

  /** The task id of the trace with this task id or command id; undefined if there is none. */
  find (id: string): string | undefined {
    if (this.#waiting.has(id) || this.#saved.has(id)) return id
    for (const { taskId, commandId } of this.#waiting.values()) if (commandId === id) return taskId
    for (const { taskId, commandId } of this.#saved.values()) if (commandId === id) return taskId
    return undefined
  }

  /** The content of a trace's file; undefined if it is deleted. */
  async read (taskId: string): Promise<string | undefined> {
    const record = this.#waiting.get(taskId)
    if (record !== undefined) return chromeText(record)
    if (!this.#saved.has(taskId)) return undefined
    return await readFile(this.#path(taskId), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      this.#forget(taskId)
      return undefined
    })
  }

  /** Removes a trace; false for an unknown one. */
  async remove (taskId: string): Promise<boolean> {
    const waited = this.#waiting.delete(taskId)
    if (!this.#forget(taskId)) return waited
    await rm(this.#path(taskId), { force: true })
    return true
  }

  async prune (retentionDays: number): Promise<number> {
    const { folder, clock } = this.#parts
    const oldestMs = clock.now() - retentionDays * DAY_MS
    let removed = 0
    for (const name of await this.#names()) {
      if (!name.endsWith('.json') || (await stat(join(folder, name))).mtimeMs >= oldestMs) continue
      this.#forget(name.slice(0, -'.json'.length))
      await rm(join(folder, name), { force: true })
      removed++
    }
    await this.#enforceLimits()
    return removed
  }

  async idle (): Promise<void> {
    while (this.#writing !== null) await this.#writing
  }

  async #names (): Promise<string[]> {
    return await readdir(this.#parts.folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
  }

  #path (taskId: string): string { return join(this.#parts.folder, `${taskId}.json`) }

  async #writeAll (): Promise<void> {
    for (const [taskId, record] of this.#waiting) {
      // Yields to the event loop, so that other work can run.
      await new Promise((resolve) => { setImmediate(resolve) })
      await this.#save(taskId, record)
      this.#waiting.delete(taskId)
    }
    await this.#enforceLimits().catch((error: unknown) => { this.#warn(error) })
    this.#writing = this.#waiting.size > 0 ? this.#writeAll() : null
  }

  async #save (taskId: string, record: TraceRecord): Promise<void> {
    const { folder, counters, write = writeText } = this.#parts
    const path = this.#path(taskId)
    const text = chromeText(record)
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await write(`${path}.tmp`, text)
      await rename(`${path}.tmp`, path)
      // A trace deleted during the write stays deleted.
      if (!this.#waiting.has(taskId)) await rm(path, { force: true })
      else this.#keep(entryOf(record, Buffer.byteLength(text)))
      counters.written++
    } catch (error) {
      counters.droppedDisk++
      await rm(`${path}.tmp`, { force: true }).catch(() => {})
      this.#warn(error)
    }
  }

  /** Removes the oldest files until the limits hold. */
  async #enforceLimits (): Promise<void> {
    const { maxBytes } = this.#parts
    for (const taskId of this.#saved.keys()) {
      if (this.#bytes <= maxBytes && this.#saved.size <= FILES_MAX) return
      await this.remove(taskId)
    }
  }

  #keep (entry: TraceEntry): void {
    this.#forget(entry.taskId)
    this.#saved.set(entry.taskId, entry)
    this.#bytes += entry.fileSize
  }

  #forget (taskId: string): boolean {
    this.#bytes -= this.#saved.get(taskId)?.fileSize ?? 0
    return this.#saved.delete(taskId)
  }

  /** Reads a file's entry into a list, which is empty if the file is not a trace or cannot be read. */
  async #readEntry (name: string): Promise<TraceEntry[]> {
    const path = join(this.#parts.folder, name)
    try {
      const head = readHead(await firstBytes(path))
      if (head === null || `${head.taskId}.json` !== name || !TRACE_ID.test(head.taskId)) return []
      return [entryOf(head, (await stat(path)).size)]
    } catch (error) {
      this.#warn(error)
      return []
    }
  }

  #warn (err: unknown): void {
    const { clock, log, counters, folder } = this.#parts
    if (clock.mono() - this.#warnedMs < WARN_INTERVAL_MS) return
    this.#warnedMs = clock.mono()
    log.warn({ err, folder, dropped: counters.droppedDisk }, 'cannot save traces; requests are not affected')
  }
}

const byAge = (a: TraceEntry, b: TraceEntry): number => a.createdAt < b.createdAt ? -1 : 1

function entryOf (head: TraceHead, fileSize: number): TraceEntry {
  const { taskId, createdAt, modelId, commandId, taskKind, outcome, durationUs } = head
  return { taskId, createdAt, modelId, commandId, taskKind, outcome, durationUs, fileSize }
}

const writeText = async (path: string, text: string): Promise<void> => {
  await writeFile(path, text, { mode: 0o600 })
}

async function firstBytes (path: string): Promise<string> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0)
    return buffer.subarray(0, bytesRead).toString()
  } finally {
    await file.close()
  }
}
