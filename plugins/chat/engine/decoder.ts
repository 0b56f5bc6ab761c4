/** What the scheduler needs of a language model. The real one is in model.ts; tests have one of their own. */
import type { RowSource } from './cache.js'

/** The state of some sequences between two calls. */
export interface Rows { readonly lengths: readonly number[], readonly span: number }

/** A language model that continues several sequences at once. */
export interface Decoder<B extends Rows> {
  /** Bytes of state per token of a sequence, and what a sequence takes besides. */
  readonly tokenBytes: number
  readonly stateBytes: number
  /** Bytes of weights, which are read once per call whatever the number of rows. */
  readonly weightBytes: number
  /** Sequences that one call can continue. */
  readonly maxRows: number
  /** True where sequences of different lengths can be in one batch. */
  readonly ragged: boolean
  /** True where a prompt can be fed in several pieces. */
  readonly chunked: boolean
  /** True where a state can be cut back to fewer tokens. */
  readonly rewinds: boolean
  /** A sequence without tokens. */
  empty (): B
  /** Copies rows into a new batch. */
  pack (rows: ReadonlyArray<RowSource<B>>): B
  /**
   * Feeds each row its tokens, as many for each. Answers the new state and, if wanted, one row of logits
   * per sequence, which belongs to the caller. The old state stays as it is.
   */
  forward (batch: B, tokens: ReadonlyArray<readonly number[]>, logits: boolean): Promise<Forward<B>>
}

/** Logits is empty where none were wanted. */
export interface Forward<B> { batch: B, logits: Float32Array[] }
