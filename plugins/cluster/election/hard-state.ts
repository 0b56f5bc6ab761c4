import type { HardStateRecord, Io, Token } from './protocol.js'

/** Of a home that has joined, before its first vote there. */
export const NO_VOTE: HardStateRecord = { term: 0, votedFor: null, boot: 0 }

/**
 * Raft's hard state: the highest term that this node voted in or followed a master of, and that master; on
 * disk before others hear of it. While the disk refuses, the node gives no vote; it may follow a master,
 * which raises `floor` in memory only, but acknowledges nothing.
 */
export class HardState {
  readonly #persist: Io['persist']
  readonly #counts: (persisted: boolean) => boolean
  #record: HardStateRecord
  #floor: Token
  #storing = true

  /**
   * `stored`: null on the first start; `counts`: the answers of `persist` that count as written (rule
   * `writeCounts`).
   */
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

  /** Number of this start. Counted in memory also when the disk refused it. */
  get boot (): number { return this.#record.boot }

  /** The state on disk. */
  get durable (): Token { return { term: this.#record.term, master: this.#record.votedFor ?? '' } }

  get voted (): Token { return this.#floor.term > this.#record.term ? this.#floor : this.durable }

  get storing (): boolean { return this.#storing }

  /** Votes in `token.term`. False, without a change, when the disk refused. */
  grant (token: Token): boolean {
    if (this.#record.term === token.term && this.#record.votedFor === token.master) return true
    return this.#write({ ...this.#record, term: token.term, votedFor: token.master })
  }

  /** Follows a master whose term is at least the one voted in. The floor rises in any case. */
  follow (token: Token): void {
    if (token.term <= this.voted.term) return
    this.#floor = token
    this.#write({ ...this.#record, term: token.term, votedFor: token.master })
  }

  /** Whether the disk holds at least that term, so that what is done under it may be acknowledged. */
  covers (term: number): boolean { return this.#record.term >= term }

  /** The disk refused something else that must last, such as an entry. */
  failed (): void { this.#storing = false }

  /** Writes again what was refused. Called from time to time while `storing` is false. */
  retry (): void {
    const { term, master } = this.voted
    this.#write({ ...this.#record, term, votedFor: master === '' ? null : master })
  }

  #write (record: HardStateRecord): boolean {
    let persisted = false
    // An exception is a refusal, which `storing` reports.
    try { persisted = this.#persist(record) } catch {}
    this.#storing = this.#counts(persisted)
    if (this.#storing) this.#record = record
    return this.#storing
  }
}
