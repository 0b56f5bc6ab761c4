/** A decoder that is a plain function of the tokens, and jobs that write down what happens to them. */
import type { Decoder, Forward, RowSource, Rows } from '../engine/cache.js'
import type { Job } from '../engine/sequence.js'

export const VOCABULARY = 23

/** State of the fake: the tokens themselves. */
export interface FakeRows extends Rows { readonly ids: ReadonlyArray<readonly number[]> }

/** What a call was. */
export interface Call { rows: number, added: number, span: number }

/** Logits after some tokens: all of them count, and each token counts differently. */
export function logitsOf (ids: readonly number[]): Float32Array {
  let hash = 2166136261
  for (const id of ids) hash = Math.imul(hash ^ (id + 1), 16777619) >>> 0
  return Float32Array.from({ length: VOCABULARY }, (_, i) => Math.imul(hash ^ (i * 2654435761), 40503) >>> 8)
}

export const argmax = (logits: Float32Array): number => logits.indexOf(Math.max(...logits))

/** What comes out when a prompt is written on alone, without any scheduler. */
export function reference (prompt: readonly number[], tokens: number): number[] {
  const ids = [...prompt]
  for (let i = 0; i < tokens; i++) ids.push(argmax(logitsOf(ids)))
  return ids.slice(prompt.length)
}

type BatchSupport = Partial<Pick<Decoder<FakeRows>, 'ragged' | 'chunked' | 'rewinds' | 'maxRows'>>

/** Checks every call against what the decoder said it can do. */
export class FakeDecoder implements Decoder<FakeRows> {
  readonly tokenBytes = 10
  readonly stateBytes: number
  readonly weightBytes = 1000
  readonly maxRows: number
  readonly ragged: boolean
  readonly chunked: boolean
  readonly rewinds: boolean
  readonly calls: Call[] = []
  readonly copies: number[] = []
  /** Throws in the next call. */
  failure: Error | undefined
  /** Milliseconds a call takes, on the clock of the test. */
  onCall: (call: Call) => void = () => {}

  constructor ({ ragged = true, chunked = true, rewinds = true, maxRows = Infinity }: BatchSupport = {}) {
    this.ragged = ragged
    this.chunked = chunked
    this.rewinds = rewinds
    this.maxRows = maxRows
    this.stateBytes = rewinds ? 0 : 7
  }

  /** Says whether `pack` has no memory for these rows. */
  noRoom: (sources: ReadonlyArray<RowSource<FakeRows>>) => boolean = () => false

  empty (): FakeRows { return this.rows([[]]) }

  pack (sources: ReadonlyArray<RowSource<FakeRows>>): FakeRows {
    if (this.noRoom(sources)) throw new RangeError('Array buffer allocation failed')
    return this.rows(sources.map(({ batch, row, length }) => {
      const ids = batch.ids[row] as number[]
      if (length > ids.length) throw new Error(`row of ${ids.length} tokens asked for ${length}`)
      if (!this.rewinds && length !== ids.length) throw new Error('a state was cut back')
      this.copies.push(length)
      return ids.slice(0, length)
    }))
  }

  async forward (
    batch: FakeRows, tokens: ReadonlyArray<readonly number[]>, logits: boolean
  ): Promise<Forward<FakeRows>> {
    const added = tokens[0]?.length ?? 0
    const call = { rows: tokens.length, added, span: batch.span }
    this.calls.push(call)
    this.check(batch, tokens)
    this.onCall(call)
    await Promise.resolve()
    const error = this.failure
    this.failure = undefined
    if (error !== undefined) throw error
    const ids = batch.ids.map((row, i) => [...row, ...tokens[i] as number[]])
    return { batch: this.rows(ids), logits: logits ? ids.map(logitsOf) : [] }
  }

  private check (batch: FakeRows, tokens: ReadonlyArray<readonly number[]>): void {
    const added = tokens[0]?.length ?? 0
    if (added === 0 || tokens.some((row) => row.length !== added)) throw new Error('tokens of unequal number')
    if (tokens.length !== batch.ids.length) throw new Error('as many rows of tokens as of state')
    if (tokens.length > this.maxRows) throw new Error(`${tokens.length} rows`)
    if (!this.ragged && new Set(batch.lengths).size > 1) throw new Error('rows of different lengths')
    if (!this.chunked && added > 1 && batch.span > 0) throw new Error('a prompt in pieces')
  }

  private rows (ids: number[][]): FakeRows {
    const lengths = ids.map((row) => row.length)
    return Object.freeze({ ids, lengths, span: Math.max(...lengths) })
  }
}

/** A job that chooses the likeliest token, and notes everything. */
export class NotingJob implements Job {
  readonly prompt: readonly number[]
  readonly written: number[] = []
  readonly maxTokens: number
  cached: number | undefined
  outcome: 'ended' | 'failed' | undefined
  error: unknown
  /** Set when it was taken back; any call after that is a mistake. */
  cancelled = false
  onToken: () => void = () => {}
  onSettled: () => void = () => {}

  constructor (prompt: readonly number[], maxTokens: number) {
    this.prompt = prompt
    this.maxTokens = maxTokens
  }

  started (cached: number): void {
    this.alive('started')
    if (this.cached !== undefined) throw new Error('started twice')
    this.cached = cached
  }

  next (logits: Float32Array): { id: number, done: boolean } {
    this.alive('next')
    const id = argmax(logits)
    // A chooser may do this.
    logits.fill(NaN)
    this.written.push(id)
    this.onToken()
    return { id, done: this.written.length >= this.maxTokens }
  }

  ended (): void { this.settle('ended') }

  failed (error: unknown): void {
    this.error = error
    this.settle('failed')
  }

  private settle (outcome: 'ended' | 'failed'): void {
    this.alive(outcome)
    this.outcome = outcome
    this.onSettled()
  }

  private alive (what: string): void {
    if (this.cancelled) throw new Error(`${what} after it was taken back`)
    if (this.outcome !== undefined) throw new Error(`${what} after ${this.outcome}`)
  }
}
