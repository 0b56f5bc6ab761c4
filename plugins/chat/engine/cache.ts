/**
 * What a scheduler needs of a language model, and its KV cache: keys and values of several sequences side by
 * side, and copying rows between batches.
 */
import type { CacheTensor } from './bind.js'
import type { Part } from './tensors.js'

/**
 * The KV cache of some sequences. The graph gets `room` entries of each row of a growing tensor; a shorter
 * sequence is padded in front (`left`) or behind (`right`), as the graph wants it.
 *
 * A batch and the one after the next token share their memory: a new entry is written into the padding. With
 * padding behind, that is the row's own. With padding in front, the view of the whole memory moves on by one
 * entry for each new one, which takes the place of the first padding of the next row.
 */
export interface KvBatch {
  /** Tokens of each sequence. */
  readonly lengths: readonly number[]
  /** Tokens of the longest sequence. */
  readonly span: number
  /** Entries per row, padding included. */
  readonly room: number
  /** One per tensor. */
  readonly parts: readonly Part[]
  /** Entries of a growing part before the first row. */
  readonly base: number
  /** Entries that each row got since the parts were made. */
  readonly used: number
  /** The same of the newest batch on these parts, which alone may be continued there. */
  readonly newest: { used: number }
}

/** Where padding goes. */
export type Padding = 'left' | 'right'

/** A row of a batch, and how many of its first tokens are meant. */
export interface RowSource<B = KvBatch> { batch: B, row: number, length: number }

const widthOf = ({ grows, width }: CacheTensor, span: number): number => grows ? span * width : width

/** Numbers that a tensor has for `rows` rows of `span` tokens. */
export const sizeOf = (tensor: CacheTensor, rows: number, span: number): number =>
  tensor.lead * rows * tensor.heads * widthOf(tensor, span)

/** Dimensions of a tensor as the graph sees it. */
export function dimsOf (tensor: CacheTensor, rows: number, span: number): number[] {
  if (!tensor.grows) return [rows, ...tensor.rest]
  const dims = [rows, tensor.heads, span, tensor.width]
  return tensor.lead === 1 ? dims : [tensor.lead, ...dims]
}

const elementBytes = (tensor: CacheTensor): number => tensor.type === 'float32' ? 4 : 2

/** Bytes that one token takes in the growing tensors. */
export const tokenBytes = (tensors: readonly CacheTensor[]): number => tensors.reduce(
  (sum, tensor) => sum + (tensor.grows ? sizeOf(tensor, 1, 1) * elementBytes(tensor) : 0), 0)

/** Bytes that a sequence takes besides, whatever its length. */
export const stateBytes = (tensors: readonly CacheTensor[]): number => tensors.reduce(
  (sum, tensor) => sum + (tensor.grows ? 0 : sizeOf(tensor, 1, 1) * elementBytes(tensor)), 0)

const allocate = (tensor: CacheTensor, size: number): Part =>
  tensor.type === 'float32' ? new Float32Array(size) : new Uint16Array(size)

/** A batch from the outputs of a graph that gives back the whole KV cache: without room for more. */
export function fullBatch (lengths: readonly number[], room: number, parts: readonly Part[]): KvBatch {
  return { lengths, span: Math.max(...lengths), room, parts, base: 0, used: 0, newest: { used: 0 } }
}

/** A sequence without tokens. */
export function emptyBatch (tensors: readonly CacheTensor[]): KvBatch {
  return fullBatch([0], 0, tensors.map((tensor) => allocate(tensor, sizeOf(tensor, 1, 0))))
}

/** The window of a part that the graph gets. */
export function viewOf (tensor: CacheTensor, part: Part, { base, lengths, room }: KvBatch): Part {
  if (!tensor.grows) return part
  return part.subarray(base * tensor.width, base * tensor.width + sizeOf(tensor, lengths.length, room))
}

/** Where a row's tokens begin. */
export const offsetOf = (padding: Padding, span: number, length: number): number =>
  padding === 'left' ? span - length : 0

interface Move {
  tensor: CacheTensor, from: Part, to: Part, source: RowSource, target: RowSource, padding: Padding
}

function copyRow ({ tensor, from, to, source, target, padding }: Move): void {
  const { width, heads, grows } = tensor
  const fromBlock = widthOf(tensor, source.batch.room)
  const toBlock = widthOf(tensor, target.batch.room)
  const { base, room: fromRoom, lengths } = source.batch
  const first = base + offsetOf(padding, fromRoom, lengths[source.row] as number)
  const count = grows ? target.length * width : width
  const fromAt = grows ? first * width : 0
  const toAt = grows ? offsetOf(padding, target.batch.room, target.length) * width : 0
  for (let lead = 0; lead < tensor.lead; lead++) {
    for (let head = 0; head < heads; head++) {
      const fromRow = (lead * source.batch.lengths.length + source.row) * heads + head
      const toRow = (lead * target.batch.lengths.length + target.row) * heads + head
      const start = fromRow * fromBlock + fromAt
      to.set(from.subarray(start, start + count), toRow * toBlock + toAt)
    }
  }
}

/**
 * Copies the first `length` tokens of some rows into a new batch, with `spare` entries more per row than the
 * longest needs.
 */
export function packRows (
  tensors: readonly CacheTensor[], rows: readonly RowSource[], padding: Padding, spare = 0
): KvBatch {
  const lengths = rows.map(({ length }) => length)
  const span = Math.max(...lengths)
  const room = span + spare
  // With padding in front the view moves on into these.
  const more = (tensor: CacheTensor): number => tensor.grows && padding === 'left' ? spare * tensor.width : 0
  const parts = tensors.map((tensor) => allocate(tensor, sizeOf(tensor, rows.length, room) + more(tensor)))
  const batch: KvBatch = { ...fullBatch(lengths, room, parts), span }
  tensors.forEach((tensor, i) => {
    rows.forEach((source, row) => {
      const target = { batch, row, length: source.length }
      const from = source.batch.parts[i] as Part
      copyRow({ tensor, from, to: parts[i] as Part, source, target, padding })
    })
  })
  return batch
}

/** True where that many entries can be added to each row in place. */
export const hasRoom = ({ room, span, used, newest }: KvBatch, added: number): boolean =>
  used === newest.used && room - span >= added

/** New entries of one tensor, `[lead, rows, heads, added, width]`. */
interface Fresh { tensor: CacheTensor, from: Part, to: Part, added: number }

function addEntries (batch: KvBatch, { tensor, from, to, added }: Fresh, padding: Padding): void {
  const { base, room, lengths } = batch
  const size = added * tensor.width
  const blocks = from.length / size
  for (let block = 0; block < blocks; block++) {
    const row = Math.floor(block / tensor.heads) % lengths.length
    const end = padding === 'left' ? base + room : lengths[row] as number
    to.set(from.subarray(block * size, (block + 1) * size), (block * room + end) * tensor.width)
  }
}

/**
 * The batch that follows: `fresh` has, per tensor, the new entries of each row, or the whole of a state that
 * does not grow. The parts of the batch, which must have room, get the entries.
 */
export function continued (
  tensors: readonly CacheTensor[], batch: KvBatch, fresh: readonly Part[], added: number, padding: Padding
): KvBatch {
  const parts = tensors.map((tensor, i) => {
    const [from, to] = [fresh[i] as Part, batch.parts[i] as Part]
    if (!tensor.grows) return from
    addEntries(batch, { tensor, from, to, added }, padding)
    return to
  })
  const { span, room, newest } = batch
  const used = newest.used = batch.used + added
  const lengths = batch.lengths.map((length) => length + added)
  return { lengths, span: span + added, room, parts, base: padding === 'left' ? used : 0, used, newest }
}

/** The state of some sequences between two calls. */
export interface Rows { readonly lengths: readonly number[], readonly span: number }

/** A language model that continues several sequences at once: model.ts, or a test's own. */
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
