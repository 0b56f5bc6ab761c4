/** The state of sequences in memory: keys and values of several rows side by side, and moving rows. */
import type { Slot } from './bind.js'

/** Numbers of one slot. Half-precision floats are kept as their bits. */
export type Part = Float32Array | Uint16Array

/**
 * The state of some sequences. All rows of a growing slot are `span` long; a shorter sequence is padded in
 * front (`left`) or behind (`right`), as the graph wants it.
 */
export interface KvBatch {
  /** Tokens of each sequence. */
  readonly lengths: readonly number[]
  readonly span: number
  /** One per slot. Not changed once made: batches may share them. */
  readonly parts: readonly Part[]
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

/** A sequence without tokens. */
export function emptyBatch (slots: readonly Slot[]): KvBatch {
  return { lengths: [0], span: 0, parts: slots.map(slot => allocate(slot, sizeOf(slot, 1, 0))) }
}

/** Where a row's tokens begin. */
export const offsetOf = (padding: Padding, span: number, length: number): number =>
  padding === 'left' ? span - length : 0

interface Move { slot: Slot, from: Part, to: Part, source: RowSource, target: RowSource, padding: Padding }

function copyRow ({ slot, from, to, source, target, padding }: Move): void {
  const { width, heads, grows } = slot
  const fromBlock = widthOf(slot, source.batch.span)
  const toBlock = widthOf(slot, target.batch.span)
  const { span: fromSpan, lengths } = source.batch
  const count = grows ? target.length * width : width
  const fromAt = grows ? offsetOf(padding, fromSpan, lengths[source.row] as number) * width : 0
  const toAt = grows ? offsetOf(padding, target.batch.span, target.length) * width : 0
  for (let lead = 0; lead < slot.lead; lead++) {
    for (let head = 0; head < heads; head++) {
      const fromRow = (lead * source.batch.lengths.length + source.row) * heads + head
      const toRow = (lead * target.batch.lengths.length + target.row) * heads + head
      const start = fromRow * fromBlock + fromAt
      to.set(from.subarray(start, start + count), toRow * toBlock + toAt)
    }
  }
}

/** Copies the first `length` tokens of some rows into a new batch. */
export function packRows (slots: readonly Slot[], rows: readonly RowSource[], padding: Padding): KvBatch {
  const lengths = rows.map(({ length }) => length)
  const span = Math.max(...lengths)
  const parts = slots.map(slot => allocate(slot, sizeOf(slot, rows.length, span)))
  const batch: KvBatch = { lengths, span, parts }
  slots.forEach((slot, i) => {
    rows.forEach((source, row) => {
      const target = { batch, row, length: source.length }
      const from = source.batch.parts[i] as Part
      copyRow({ slot, from, to: parts[i] as Part, source, target, padding })
    })
  })
  return batch
}
