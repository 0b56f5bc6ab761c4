import type { HardStateRecord, Io, Token } from './protocol.js'

/** State of a home before its first vote. */
export const NO_VOTE: HardStateRecord = { term: 0, votedFor: null, boot: 0 }

/**
 * Raft's hard state: the highest term in which this node voted or followed a master, and that node. It is on
 * disk before other nodes see it. While the disk refuses writes, this node does not vote; it may follow a
 * master, which raises only the in-memory `floor`, but it acknowledges no entries.
 */
export class HardState {
  readonly #persist: Io['persist']
  readonly #counts: (persisted: boolean) => boolean
  #record: HardStateRecord
  #floor: Token
  #storing = true

  /** `stored` is null on the first start; `counts` is Rules.writeCounts. */
  constructor (
    stored: HardStateRecord | null, persist: Io['persist'], counts: (persisted: boolean) => boolean
  ) {
    this.#persist = persist
    this.#counts = counts
    this.#record = stored ?? NO_VOTE
    this.#floor = this.durable
    const booted = { ...this.#record, boot: this.#record.boot + 1 }
    if (!this.#write(booted)) this.#record = booted
  }

  /** Boot count of this process; incremented in memory even if the disk refused to store it. */
  get boot (): number { return this.#record.boot }

  get durable (): Token { return { term: this.#record.term, master: this.#record.votedFor ?? '' } }

  get voted (): Token { return this.#floor.term > this.#record.term ? this.#floor : this.durable }

  get storing (): boolean { return this.#storing }

  /** Votes for `token.master` in `token.term`. Returns false, changing nothing, if the disk refuses. */
  grant (token: Token): boolean {
    if (this.#record.term === token.term && this.#record.votedFor === token.master) return true
    return this.#write({ ...this.#record, term: token.term, votedFor: token.master })
  }

  /** Records that this node follows a master, if its term is new; in memory even if the disk refuses. */
  follow (token: Token): void {
    if (token.term <= this.voted.term) return
    this.#floor = token
    this.#write({ ...this.#record, term: token.term, votedFor: token.master })
  }

  /** Whether the disk holds at least that term, so this node may acknowledge entries of that term. */
  covers (term: number): boolean { return this.#record.term >= term }

  /** Records that the disk refused another durable write, such as an entry. */
  failed (): void { this.#storing = false }

  /** Retries a refused write; called at each heartbeat while `storing` is false. */
  retry (): void {
    const { term, master } = this.voted
    this.#write({ ...this.#record, term, votedFor: master === '' ? null : master })
  }

  #write (record: HardStateRecord): boolean {
    let persisted = false
    // An exception counts as a refusal, which `storing` reports.
    try { persisted = this.#persist(record) } catch {}
    this.#storing = this.#counts(persisted)
    if (this.#storing) this.#record = record
    return this.#storing
  }
}
