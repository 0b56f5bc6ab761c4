/** The state of sequences in memory: keys and values of several rows side by side, and moving rows. */
import type { Slot } from './bind.js'

/** Numbers of one slot. Half-precision floats are kept as their bits. */
export type Part = Float32Array | Uint16Array

/**
 * The state of some sequences. The graph gets `room` entries of each row of a growing slot; a shorter
 * sequence is padded in front (`left`) or behind (`right`), as the graph wants it.
 *
 * Batches that follow each other share their parts: the newer one has its new entries where the older one
 * has padding. Padding in front is used up by moving on: each entry later that the rows begin, a row ends
 * where the padding of the next one was.
 */
export interface KvBatch {
  /** Tokens of each sequence. */
  readonly lengths: readonly number[]
  /** Tokens of the longest sequence. */
  readonly span: number
  /** Entries per row, padding included. */
  readonly room: number
  /** One per slot. */
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

const widthOf = (slot: Slot, span: number): number => slot.grows ? span * slot.width : slot.width

/** Numbers that a slot has for `rows` rows of `span` tokens. */
export const sizeOf = (slot: Slot, rows: number, span: number): number =>
  slot.lead * rows * slot.heads * widthOf(slot, span)

/** Dimensions of a slot as the graph sees it. */
export function dimsOf (slot: Slot, rows: number, span: number): number[] {
  if (!slot.grows) return [rows, ...slot.rest]
  const dims = [rows, slot.heads, span, slot.width]
  return slot.lead === 1 ? dims : [slot.lead, ...dims]
}

const elementBytes = (slot: Slot): number => slot.type === 'float32' ? 4 : 2

/** Bytes that one token takes in the growing slots. */
export const tokenBytes = (slots: readonly Slot[]): number => slots.reduce(
  (sum, slot) => sum + (slot.grows ? sizeOf(slot, 1, 1) * elementBytes(slot) : 0), 0)

/** Bytes that a sequence takes besides, whatever its length. */
export const stateBytes = (slots: readonly Slot[]): number => slots.reduce(
  (sum, slot) => sum + (slot.grows ? 0 : sizeOf(slot, 1, 1) * elementBytes(slot)), 0)

const allocate = (slot: Slot, size: number): Part =>
  slot.type === 'float32' ? new Float32Array(size) : new Uint16Array(size)

/** A state as it comes from a graph that gives all of it back: no room for more. */
export function fullBatch (lengths: readonly number[], room: number, parts: readonly Part[]): KvBatch {
  return { lengths, span: Math.max(...lengths), room, parts, base: 0, used: 0, newest: { used: 0 } }
}

/** A sequence without tokens. */
export function emptyBatch (slots: readonly Slot[]): KvBatch {
  return fullBatch([0], 0, slots.map(slot => allocate(slot, sizeOf(slot, 1, 0))))
}

/** What the graph gets of a part. */
export function viewOf (slot: Slot, part: Part, { base, lengths, room }: KvBatch): Part {
  if (!slot.grows) return part
  return part.subarray(base * slot.width, base * slot.width + sizeOf(slot, lengths.length, room))
}

/** Where a row's tokens begin. */
export const offsetOf = (padding: Padding, span: number, length: number): number =>
  padding === 'left' ? span - length : 0

interface Move { slot: Slot, from: Part, to: Part, source: RowSource, target: RowSource, padding: Padding }

function copyRow ({ slot, from, to, source, target, padding }: Move): void {
  const { width, heads, grows } = slot
  const fromBlock = widthOf(slot, source.batch.room)
  const toBlock = widthOf(slot, target.batch.room)
  const { base, room: fromRoom, lengths } = source.batch
  const first = base + offsetOf(padding, fromRoom, lengths[source.row] as number)
  const count = grows ? target.length * width : width
  const fromAt = grows ? first * width : 0
  const toAt = grows ? offsetOf(padding, target.batch.room, target.length) * width : 0
  for (let lead = 0; lead < slot.lead; lead++) {
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
  slots: readonly Slot[], rows: readonly RowSource[], padding: Padding, spare = 0
): KvBatch {
  const lengths = rows.map(({ length }) => length)
  const span = Math.max(...lengths)
  const room = span + spare
  // Rows that are padded in front move on by what they get.
  const more = (slot: Slot): number => slot.grows && padding === 'left' ? spare * slot.width : 0
  const parts = slots.map(slot => allocate(slot, sizeOf(slot, rows.length, room) + more(slot)))
  const batch: KvBatch = { ...fullBatch(lengths, room, parts), span }
  slots.forEach((slot, i) => {
    rows.forEach((source, row) => {
      const target = { batch, row, length: source.length }
      const from = source.batch.parts[i] as Part
      copyRow({ slot, from, to: parts[i] as Part, source, target, padding })
    })
  })
  return batch
}

/** True where that many entries can be added to each row in place. */
export const hasRoom = ({ room, span, used, newest }: KvBatch, added: number): boolean =>
  used === newest.used && room - span >= added

/** New entries of one slot, `[lead, rows, heads, added, width]`. */
interface Fresh { slot: Slot, from: Part, to: Part, added: number }

function addEntries (batch: KvBatch, { slot, from, to, added }: Fresh, padding: Padding): void {
  const { base, room, lengths } = batch
  const size = added * slot.width
  const blocks = from.length / size
  for (let block = 0; block < blocks; block++) {
    const row = Math.floor(block / slot.heads) % lengths.length
    const end = padding === 'left' ? base + room : lengths[row] as number
    to.set(from.subarray(block * size, (block + 1) * size), (block * room + end) * slot.width)
  }
}

/**
 * The batch that follows: `fresh` has, per slot, the new entries of each row, or the whole of a state that
 * does not grow. The parts of the batch, which must have room, get the entries.
 */
export function continued (
  slots: readonly Slot[], batch: KvBatch, fresh: readonly Part[], added: number, padding: Padding
): KvBatch {
  const parts = slots.map((slot, i) => {
    const [from, to] = [fresh[i] as Part, batch.parts[i] as Part]
    if (!slot.grows) return from
    addEntries(batch, { slot, from, to, added }, padding)
    return to
  })
  const { span, room, newest } = batch
  const used = newest.used = batch.used + added
  const lengths = batch.lengths.map(length => length + added)
  return { lengths, span: span + added, room, parts, base: padding === 'left' ? used : 0, used, newest }
}
