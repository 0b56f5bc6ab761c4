import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DiskReserve } from '../../../kernel/index.js'
import type { FileHandle } from 'node:fs/promises'
import { firstOf, linesOf, openParts, openToWrite, removePart } from './files.js'
import { canonicalJson, GENESIS, own, withHash } from './record.js'
import type { ChainFile } from './files.js'
import type { AuditRecord, RecordFields } from './record.js'
import type { Head } from './verify.js'

export interface ChainLimits {
  /** A file ends at this size. */
  readonly fileBytes: number
  /** Most files; beyond it the oldest is dropped. */
  readonly files: number
  /** Records that may wait for the disk. */
  readonly waiting: number
  /** Held on the disk for records that it would not take any more. */
  readonly reserveBytes: number
}

export const chainLimits: ChainLimits =
  { fileBytes: 4 * 1024 * 1024, files: 8, waiting: 1000, reserveBytes: 256 * 1024 }

/** Records written at once. */
const GROUP = 64

export interface ChainOptions {
  readonly folder: string
  readonly node: string
  /** Wall time, ms since 1970. */
  readonly now: () => number
  readonly limits?: ChainLimits
  /** Gets each record once it is on disk, in order. */
  readonly onRecord: (record: AuditRecord) => void
  /** Gets the reason why writing fails; null when it works again. */
  readonly onFault: (why: string | null) => void
}

export class ChainFault extends Error { override readonly name = 'ChainFault' }

type Draft = RecordFields & { readonly at: string }
interface Waiting { draft: Draft, resolve: (record: AuditRecord) => void, reject: (why: ChainFault) => void }

/**
 * The records of one node in append-only files, each bound to the one before by its hash. Resolved records
 * are on disk; those that arrive during a write are written together.
 */
export class Chain {
  readonly #options: ChainOptions
  readonly #limits: ChainLimits
  readonly #reserve: DiskReserve
  readonly #waiting: Waiting[] = []
  /** Ends of requests for which there was no room: written before anything else. */
  #owed: Draft[] = []
  /** Unrecorded changes since the start, those counted in a `gap`, and the time of the first other one. */
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

  /** The newest record on disk; null before the first, and while the files could not be read. */
  get head (): Head | null { return this.#head }

  /** Reads the files. Reports a failure as a fault, and retries with the next record. */
  async start (): Promise<void> {
    try {
      await this.#ready()
    } catch (error) {
      this.#tell(causeOf(error))
    }
  }

  /** Resolves when the record is on disk. Throws ChainFault; then it is not in the chain. */
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

  /** As `append`, but never fails: what the disk does not take now is written with the next record. */
  async settle (fields: RecordFields): Promise<void> {
    const draft = this.#draft(fields)
    await this.append(fields).catch(() => {
      if (this.#owed.length < this.#limits.waiting) this.#owed.push(draft)
      else this.miss()
    })
  }

  /** Something is not recorded: the next record says so. */
  miss (): void {
    const { count, told, from } = this.#missed
    this.#missed = { count: count + 1, told, from: count > told ? from : this.#now() }
  }

  /** Every line, oldest first, up to the newest record of now. */
  lines (): AsyncGenerator<string> {
    return linesOf(this.#options.folder, this.#parts.map((part) => ({ ...part })))
  }

  /** The lines of each file, newest file first. */
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

  /** A record of this node about its own chain. */
  #ownDraft (what: string, detail: Draft['detail']): Draft {
    return this.#draft({ who: 'node', how: 'direct', what, detail })
  }

  /** Writes until the queue is empty. */
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

  /** As `#write`; a full disk gets pieces of the reserve for it. */
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

  /** Writes what is owed, then these, and returns the records of these. All of them or none. */
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

  /** Opens the folder and the newest file, once. Cuts off the rest of a failed write. */
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

  /** Begins another file when the newest one is full; records the dropped one. */
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

  /** Writes behind what counts, and waits until it is on disk. After a failure the file is opened anew. */
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

  /** The chain has recorded the drop of the file; a failed removal is retried the next time. */
  async #drop (part: ChainFile): Promise<void> {
    try {
      await removePart(this.#options.folder, part)
      this.#parts = this.#parts.filter((one) => one !== part)
    } catch { /* Tried again when the next file is begun. */ }
  }

  #tell (why: string | null): void {
    if (why === this.#why) return
    this.#why = why
    this.#options.onFault(why)
  }
}

/** The file system's message without the path. */
const causeOf = (error: unknown): string => (error as Error).message.split(', ')[0]!
