import { mkdir, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { DiskReserve } from '../../../kernel/index.js'
import { firstOf, linesOf, openParts, openToWrite, removePart, type ChainFile } from './files.js'
import { canonicalJson, GENESIS, own, withHash, type AuditRecord, type RecordFields } from './record.js'
import type { Head } from './verify.js'

export const chainLimits = {
  /** Size at which a file is closed and the next one started. */
  fileBytes: 4 * 1024 * 1024,
  /** Maximum number of files; beyond that, the oldest is removed. */
  files: 8,
  waiting: 1000,
  /** Disk space that is reserved so that records can still be written when the disk is full. */
  reserveBytes: 256 * 1024
}
export type ChainLimits = Readonly<typeof chainLimits>

/** Maximum number of records that share one write and fsync. */
const GROUP = 64

export interface ChainOptions {
  readonly folder: string
  readonly node: string
  /** Wall clock, ms since 1970. */
  readonly now: () => number
  readonly limits?: ChainLimits
  /** Called for each record once it is on disk, in order. */
  readonly onRecord: (record: AuditRecord) => void
  /** Called with the reason when writing fails, and with null after recovery. */
  readonly onFault: (why: string | null) => void
}

export class ChainFault extends Error { override readonly name = 'ChainFault' }

type Draft = RecordFields & { readonly at: string }
interface Waiting { draft: Draft, resolve: (record: AuditRecord) => void, reject: (why: ChainFault) => void }

/** One node's records in append-only files, each linked to its predecessor by its hash. */
export class Chain {
  readonly #options: ChainOptions
  readonly #limits: ChainLimits
  readonly #reserve: DiskReserve
  readonly #waiting: Waiting[] = []
  /** Request outcomes that could not be written yet; written before any new record. */
  #owed: Draft[] = []
  /** Unrecorded changes: their number, how many `gap` records report, and the time of the first other. */
  #missed = { count: 0, told: 0, from: '' }
  #parts: ChainFile[] = []
  #file: FileHandle | null = null
  #head: Head | null = null
  #open = false
  #busy = false
  #pumping = Promise.resolve()
  #why: string | null = null

  constructor (options: ChainOptions) {
    this.#options = options
    this.#limits = options.limits ?? chainLimits
    this.#reserve = new DiskReserve(join(options.folder, 'reserve'), this.#limits.reserveBytes)
  }

  /** The newest record; null before the first one and if the files could not be read. */
  get head (): Head | null { return this.#head }

  /** Opens the files. Reports a failure as a fault and retries with the next record. */
  async start (): Promise<void> {
    try { await this.#ready() } catch (error) { this.#tell(causeOf(error)) }
  }

  /** Resolves once the record is on disk. Throws ChainFault if it was not added. */
  async append (fields: RecordFields): Promise<AuditRecord> {
    const draft = this.#draft(fields)
    return await new Promise((resolve, reject) => {
      if (this.#waiting.length >= this.#limits.waiting) {
        reject(new ChainFault(`${this.#waiting.length} records wait for the disk`))
        return
      }
      this.#waiting.push({ draft, resolve, reject })
      if (!this.#busy) this.#pumping = this.#pump()
    })
  }

  /** Like `append`, but never fails: a record that could not be written is retried with the next one. */
  async settle (fields: RecordFields): Promise<void> {
    const draft = this.#draft(fields)
    await this.append(fields).catch(() => {
      if (this.#owed.length < this.#limits.waiting) this.#owed.push(draft)
      else this.miss()
    })
  }

  /** Counts an unrecorded change; the next record reports it. */
  miss (): void {
    const { count, told, from } = this.#missed
    this.#missed = { count: count + 1, told, from: count > told ? from : this.#now() }
  }

  /** Every line, oldest first, up to the newest record at the time of the call. */
  lines (): AsyncGenerator<string> {
    return linesOf(this.#options.folder, this.#parts.map((part) => ({ ...part })))
  }

  * newestFirst (): Generator<AsyncGenerator<string>> {
    for (const part of this.#parts.map((one) => ({ ...one })).reverse()) {
      yield linesOf(this.#options.folder, [part])
    }
  }

  async close (): Promise<void> {
    await this.#pumping
    const { count, told } = this.#missed
    if (this.#owed.length > 0 || count > told) await this.#writeAnyway([]).catch(() => {})
    await this.#file?.close()
    this.#file = null
  }

  #draft (fields: RecordFields): Draft { return { ...fields, at: this.#now() } }

  #now (): string { return new Date(this.#options.now()).toISOString() }

  /** Draft of a record about the chain itself, such as `gap`. */
  #ownDraft (what: string, detail: Draft['detail']): Draft {
    return this.#draft({ who: 'node', how: 'direct', what, detail })
  }

  async #pump (): Promise<void> {
    this.#busy = true
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, GROUP)
      try {
        const records = await this.#writeAnyway(group.map(({ draft }) => draft))
        group.forEach(({ resolve }, i) => { resolve(records[i]!) })
      } catch (error) {
        const why = causeOf(error)
        this.#tell(why)
        for (const { reject } of group) reject(new ChainFault(why))
      }
    }
    this.#busy = false
  }

  /** Like `#write`, but on a full disk makes room by freeing parts of the reserve. */
  async #writeAnyway (drafts: readonly Draft[]): Promise<AuditRecord[]> {
    for (;;) {
      try {
        const records = await this.#write(drafts)
        await this.#reserve.fill()
        return records
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if ((code !== 'ENOSPC' && code !== 'EDQUOT') || !await this.#reserve.spend()) throw error
      }
    }
  }

  /** Writes the outstanding records, then `drafts`, all or none of them. Returns the records for `drafts`. */
  async #write (drafts: readonly Draft[]): Promise<AuditRecord[]> {
    await this.#ready()
    const dropping = await this.#turnOver()
    const [owed, { count, told, from }] = [this.#owed, this.#missed]
    const gap = count > told ? [this.#ownDraft(own.gap, { unrecorded: count - told, from })] : []
    const all = [...dropping?.drafts ?? [], ...owed, ...gap, ...drafts]
    const records: AuditRecord[] = []
    let head = this.#head ?? { seq: 0, hash: GENESIS }
    for (const draft of all) {
      const record = withHash({ seq: head.seq + 1, ...draft, node: this.#options.node, prev: head.hash })
      records.push(record)
      head = record
    }
    await this.#put(Buffer.from(records.map((record) => `${canonicalJson(record)}\n`).join('')))
    this.#head = { seq: head.seq, hash: head.hash }
    this.#owed = this.#owed.slice(owed.length)
    this.#missed = { ...this.#missed, told: count }
    for (const part of dropping?.parts ?? []) await this.#drop(part)
    this.#tell(null)
    for (const record of records) this.#options.onRecord(record)
    return records.slice(records.length - drafts.length)
  }

  /** Opens the folder and the newest file on the first call. Truncates a partially written record. */
  async #ready (): Promise<void> {
    const { folder } = this.#options
    if (!this.#open) {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await this.#reserve.fill()
      const { parts, last } = await openParts(folder)
      this.#parts = parts
      this.#head = last === null ? null : { seq: last.seq, hash: last.hash }
      this.#open = true
    }
    const newest = this.#parts.at(-1)
    if (this.#file !== null || newest === undefined) return
    const file = await openToWrite(folder, newest, false)
    try {
      await file.truncate(newest.bytes)
      this.#file = file
    } catch (error) {
      await file.close()
      throw error
    }
  }

  /** Starts a new file when the newest one is full; records the removal of the oldest. */
  async #turnOver (): Promise<{ drafts: Draft[], parts: ChainFile[] } | null> {
    const { folder } = this.#options
    const newest = this.#parts.at(-1)
    if (newest !== undefined && newest.bytes < this.#limits.fileBytes) return null
    const part = { first: (this.#head?.seq ?? 0) + 1, bytes: 0 }
    const file = await openToWrite(folder, part, true)
    await this.#file?.close()
    this.#file = file
    this.#parts.push(part)
    const excess = this.#parts.length - this.#limits.files
    if (excess <= 0) return null
    const next = await firstOf(folder, this.#parts[excess]!)
    if (next === null) return null
    const detail = { dropped: { seq: next.seq - 1, hash: next.prev } }
    return { drafts: [this.#ownDraft(own.retention, detail)], parts: this.#parts.slice(0, excess) }
  }

  /** Appends and flushes to disk. Reopens the file after a failure. */
  async #put (bytes: Buffer): Promise<void> {
    const part = this.#parts.at(-1)!
    const file = this.#file!
    try {
      for (let done = 0; done < bytes.byteLength;) {
        const left = bytes.byteLength - done
        done += (await file.write(bytes, done, left, part.bytes + done)).bytesWritten
      }
      await file.datasync()
      part.bytes += bytes.byteLength
    } catch (error) {
      this.#file = null
      await file.truncate(part.bytes).catch(() => {})
      await file.close().catch(() => {})
      throw error
    }
  }

  /** The chain already records the removal; if deleting fails, it is retried at the next new file. */
  async #drop (part: ChainFile): Promise<void> {
    try {
      await removePart(this.#options.folder, part)
      this.#parts = this.#parts.filter((one) => one !== part)
    } catch { /* Retried with the next new file. */ }
  }

  #tell (why: string | null): void {
    if (why === this.#why) return
    this.#why = why
    this.#options.onFault(why)
  }
}

/** The file system's message without the path. */
const causeOf = (error: unknown): string => (error as Error).message.split(', ')[0]!
