import type {
  ApplyResult, Entry, HardStateRecord, Log, LogPosition, NodeId, CommandReceipt
} from '../../plugins/cluster/election/protocol.js'

/** A log entry, with the digest of the log up to it and the voters after it. */
export interface Logged extends Entry {
  readonly digest: number
  readonly voters: readonly NodeId[]
}

interface Body {
  /** Position and digest of the entry before the first one; null if the entries are the whole log. */
  readonly base: { readonly seq: number, readonly digest: number } | null
  readonly entries: readonly Logged[]
}

/** A node's disk, which survives the node's crashes. */
export interface Disk {
  hardState: HardStateRecord | null
  log: readonly Logged[]
}

/** Outcome of a write. `wrote`: whether the bytes were stored although the write failed. */
export type Write = () => { ok: boolean, wrote: boolean }

/** FNV-1a over 32 bits. */
function digestOf (seed: number, text: string): number {
  let hash = seed
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619)
  return hash >>> 0
}

/** Stands in for the control document: a list of entries, each with a digest of all before it. */
export class LogTwin implements Log {
  readonly disk: Disk
  readonly #first: readonly NodeId[]
  readonly #write: Write
  readonly #changed: () => void

  /** @param first the initial voters */
  constructor (disk: Disk, first: readonly NodeId[], write: Write, changed: () => void) {
    this.disk = disk
    this.#first = first
    this.#write = write
    this.#changed = changed
  }

  last (): LogPosition {
    const { log } = this.disk
    return { term: log.at(-1)?.term ?? 0, seq: log.length }
  }

  voters (): readonly NodeId[] {
    return this.disk.log.at(-1)?.voters ?? this.#first
  }

  append (entry: Entry): boolean {
    const { log } = this.disk
    const text = `${entry.kind} ${entry.id} ${entry.sid} ${entry.term}`
    const voters = entry.kind === 'voters' ? entry.payload as readonly NodeId[] : this.voters()
    const digest = digestOf(log.at(-1)?.digest ?? 2166136261, text)
    return this.#store([...log, { ...entry, voters, digest }])
  }

  find (id: string): CommandReceipt | undefined {
    const i = this.disk.log.findLastIndex((entry) => entry.id === id)
    const entry = this.disk.log[i]
    return entry === undefined ? undefined : { sid: entry.sid, term: entry.term, seq: i + 1 }
  }

  body (seq: number | null): Body {
    const { log } = this.disk
    const base = seq === null ? undefined : log[seq - 1]
    if (seq === null || base === undefined) return { base: null, entries: log }
    return { base: { seq, digest: base.digest }, entries: log.slice(seq) }
  }

  adopt (body: unknown): ApplyResult {
    const { base, entries } = body as Body
    const { log } = this.disk
    if (base !== null && log[base.seq - 1]?.digest !== base.digest) return 'gap'
    const next = base === null ? entries : [...log.slice(0, base.seq), ...entries]
    if (next.length === log.length && next.at(-1)?.digest === log.at(-1)?.digest) return 'adopted'
    return this.#store(next) ? 'adopted' : 'failed'
  }

  #store (log: readonly Logged[]): boolean {
    const { ok, wrote } = this.#write()
    if (!ok && !wrote) return false
    this.disk.log = log
    this.#changed()
    return ok
  }
}
