import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { checkKey, checkValue, HomeError, writeWhole } from '../../../kernel/cluster.js'
import type { Clock, Logger } from '../../../kernel/cluster.js'
import type { NodeId } from '../election/protocol.js'
import type { KeptReceipt } from './receipts.js'

const FORMAT = 1

export interface Snapshot {
  readonly sid: string | null
  readonly term: number
  readonly seq: number
  readonly gen: number
  readonly digest: string
  /** Null before the first entry. */
  readonly voters: readonly NodeId[] | null
  readonly receipts: readonly KeptReceipt[]
  readonly entries: ReadonlyArray<readonly [string, unknown]>
}

interface File { readonly format: number, readonly sha256: string, readonly snapshot: Snapshot }

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** The text of a snapshot's file: the JSON and its hash. */
export function snapshotText (snapshot: Snapshot): string {
  const text = JSON.stringify(snapshot)
  return `{"format":${FORMAT},"sha256":"${sha256(text)}","snapshot":${text}}\n`
}

/** @throws HomeError for a text that is not what `snapshotText` wrote; it names `path` */
export function readSnapshot (text: string, path: string): Snapshot {
  const broken = (why: string): HomeError => new HomeError(`${path} ${why}; restore it from a backup, or ` +
    'move it away to begin without the control data (a majority of the members must still have theirs)')
  let file: Partial<File> | null
  try {
    file = JSON.parse(text) as Partial<File> | null
  } catch {
    throw broken('is not valid JSON')
  }
  if (file?.format !== FORMAT) throw broken(`has format ${String(file?.format)}, this svc reads ${FORMAT}`)
  const { snapshot } = file
  // Parsing and writing again gives the same text, so the hash of the text is the hash of the contents.
  if (snapshot === undefined || sha256(JSON.stringify(snapshot)) !== file.sha256) {
    throw broken('does not have the hash written in it')
  }
  const bad = snapshot.entries.find(([key, value]) => checkKey(key) !== null || checkValue(value) !== null)
  if (bad !== undefined) throw broken(`has the entry ${JSON.stringify(bad[0])}, which no document takes`)
  return snapshot
}

/** Where the snapshot lies. Synchronous: `write` is durable when it returns, and throws when it is not. */
export interface SnapshotStore {
  /** Of its file, for messages. */
  readonly path?: string
  read (): string | undefined
  write (text: string): void
}

/** A snapshot's file, `<home>/state/control.json`. */
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

/** For a node that lives in memory only. */
export const memoryStore: SnapshotStore = { read: () => undefined, write () {} }

/** Longest delay of the disk if entries need not be durable, ms. */
const PERIOD = 5000

export interface WriterOptions {
  store: SnapshotStore
  /** Each change is on disk before it counts; else it is written now and then. */
  durable: boolean
  clock: Clock
  log: Logger
  /** The snapshot to write. */
  now: () => Snapshot
}

export class SnapshotWriter {
  readonly #options: WriterOptions
  #cancel: (() => void) | null = null
  #failing = false

  constructor (options: WriterOptions) { this.#options = options }

  /** Whether the change counts. False only when it must be durable and the disk refused. */
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
