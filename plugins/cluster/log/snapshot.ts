import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { checkKey, checkValue, HomeError, writeWhole } from '../../../kernel/cluster.js'
import type { Clock, Logger } from '../../../kernel/cluster.js'
import type { NodeId } from '../election/protocol.js'
import type { KeptReceipt } from './receipts.js'

const FORMAT = 1

export interface Snapshot {
  readonly sid: string | null, readonly term: number, readonly seq: number, readonly gen: number
  readonly digest: string
  /** Null before the first entry. */
  readonly voters: readonly NodeId[] | null
  readonly receipts: readonly KeptReceipt[]
  readonly entries: ReadonlyArray<readonly [string, unknown]>
}

interface File { readonly format: number, readonly sha256: string, readonly snapshot: Snapshot }

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** The text of a snapshot file: JSON with its hash. */
export function snapshotText (snapshot: Snapshot): string {
  const text = JSON.stringify(snapshot)
  return `{"format":${FORMAT},"sha256":"${sha256(text)}","snapshot":${text}}\n`
}

/** @throws HomeError that names `path`, for a text that `snapshotText` did not write */
export function readSnapshot (text: string, path: string): Snapshot {
  const broken = (why: string): HomeError => new HomeError(`${path} ${why}; restore it from a backup, or ` +
    'move it away to start without the control data (a majority of the members must still have theirs)')
  let file: Partial<File> | null
  try { file = JSON.parse(text) as Partial<File> | null } catch { throw broken('is not valid JSON') }
  if (file?.format !== FORMAT) throw broken(`has format ${String(file?.format)}, this svc reads ${FORMAT}`)
  const { snapshot } = file
  // Serialising parsed JSON again yields the same text, so the hash covers the contents.
  if (snapshot === undefined || sha256(JSON.stringify(snapshot)) !== file.sha256) {
    throw broken('does not match the hash in it')
  }
  const bad = snapshot.entries.find(([key, value]) => checkKey(key) !== null || checkValue(value) !== null)
  if (bad !== undefined) throw broken(`has the invalid entry ${JSON.stringify(bad[0])}`)
  return snapshot
}

/** Storage of the snapshot. Synchronous: `write` is durable when it returns, and throws otherwise. */
export interface SnapshotStore {
  readonly path?: string
  read (): string | undefined
  write (text: string): void
}

export function fileStore (path: string): SnapshotStore {
  return {
    path,
    read () {
      try {
        return readFileSync(path, 'utf8')
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
        throw new HomeError(`cannot read ${path}: ${(error as Error).message}`)
      }
    },
    write (text) { writeWhole(path, text) }
  }
}

export const memoryStore: SnapshotStore = { read: () => undefined, write () {} }

/** Maximum delay of a write in ms if entries need not be durable. */
const PERIOD = 5000

export interface WriterOptions {
  store: SnapshotStore
  /** True: a change counts only once it is on disk. False: the snapshot is written at intervals. */
  durable: boolean
  clock: Clock
  log: Logger
  now: () => Snapshot
}

export class SnapshotWriter {
  readonly #options: WriterOptions
  #cancel: (() => void) | null = null
  #failing = false

  constructor (options: WriterOptions) { this.#options = options }

  /** Writes or schedules a snapshot. False only if it must be durable and the disk refused it. */
  keep (next: () => Snapshot): boolean {
    if (this.#options.durable) return this.#write(next())
    this.#plan()
    return true
  }

  close (): void {
    if (this.#cancel === null) return
    this.#cancel()
    this.#cancel = null
    this.#write(this.#options.now())
  }

  #plan (): void {
    this.#cancel ??= this.#options.clock.after(PERIOD, () => {
      this.#cancel = null
      if (!this.#write(this.#options.now())) this.#plan()
    })
  }

  #write (snapshot: Snapshot): boolean {
    const { log, store } = this.#options
    const { path } = store
    try {
      store.write(snapshotText(snapshot))
    } catch (error) {
      if (!this.#failing) log.error({ path, err: error }, 'the control data cannot be written to the disk')
      this.#failing = true
      return false
    }
    if (this.#failing) log.info({ path }, 'the control data is written to the disk again')
    this.#failing = false
    return true
  }
}
