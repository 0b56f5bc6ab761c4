import { GENESIS, hashOf, own, readRecord, type AuditRecord } from './record.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { routes } from '../routes.js'

export type Checked = FromSchema<typeof routes.verify.reply>['nodes'][number]
/** The newest record of a chain at some time. */
export type Head = Readonly<NonNullable<Checked['last']>>
export type Fault = NonNullable<Checked['fault']>

export type Verdict = Pick<Checked, 'records' | 'first' | 'last' | 'fault'>

/** Finds the first altered, removed or reordered record. Pass every line, in order. */
export class Verifier {
  #records = 0
  #first: AuditRecord | null = null
  #last: Head | null = null
  /** The newest record that the chain reports as removed. */
  #dropped: Head | null = null
  #fault: Fault | null = null
  /** `seq` of a missing record: it was moved if it appears later, otherwise it was removed. */
  #missed: number | null = null

  line (text: string): void {
    this.#records++
    const record = readRecord(text)
    if (this.#fault !== null) {
      if (record !== null && record.seq === this.#missed && hashOf(record) === record.hash) this.#wasMoved()
      return
    }
    const seq = (this.#last?.seq ?? 0) + 1
    if (record === null) this.#blame(seq, 'altered', 'is not a valid record in canonical form')
    else if (hashOf(record) !== record.hash) {
      this.#blame(record.seq, 'altered', 'does not match its hash')
    } else if (this.#last === null) this.#begin(record)
    else this.#follow(record, this.#last)
  }

  end (): Verdict {
    if (this.#fault === null) this.#checkBeginning()
    return { records: this.#records, first: this.#first?.seq ?? null, last: this.#last, fault: this.#fault }
  }

  #begin (record: AuditRecord): void {
    this.#first = record
    if (record.seq === 1 && record.prev !== GENESIS) {
      this.#blame(1, 'altered', 'is the first but refers to a previous one')
    }
    this.#take(record)
  }

  #follow (record: AuditRecord, last: Head): void {
    if (record.seq <= last.seq) this.#blame(record.seq, 'reordered', `comes after record ${last.seq}`)
    else if (record.seq > last.seq + 1) {
      this.#missed = last.seq + 1
      this.#blame(last.seq + 1, 'removed', `is missing: record ${record.seq} is in its place`)
    } else if (record.prev !== last.hash) {
      this.#blame(last.seq, 'altered', `is not the one that record ${record.seq} refers to`)
    } else this.#take(record)
  }

  #take (record: AuditRecord): void {
    this.#last = { seq: record.seq, hash: record.hash }
    const dropped = record.detail['dropped'] as Head | undefined
    if (record.what === own.retention && dropped !== undefined) this.#dropped = dropped
  }

  /** The oldest record must follow the newest one that the chain reports as removed. */
  #checkBeginning (): void {
    if (this.#first === null || this.#first.seq === 1) return
    const before = this.#first.seq - 1
    const { seq, hash } = this.#dropped ?? { seq: 0, hash: GENESIS }
    if (before > seq) {
      const up = `and all up to ${before}, without a record of their removal`
      this.#blame(seq + 1, 'removed', `is missing, ${up}`)
    } else if (before === seq && this.#first.prev !== hash) {
      this.#blame(this.#first.seq, 'altered', 'does not follow the newest removed record')
    }
  }

  #blame (seq: number, kind: Fault['kind'], message: string): void {
    this.#fault ??= { seq, kind, message: `Record ${seq} ${message}.` }
  }

  #wasMoved (): void {
    const seq = this.#missed!
    this.#missed = null
    this.#fault = { seq, kind: 'reordered', message: `Record ${seq} comes after later ones.` }
  }
}
