/**
 * Finds out by small runs how a graph takes several sequences: where padding goes, and whether prompts can be
 * fed in pieces. A graph that gives other results in a batch than alone gets no batch.
 */
import type { Forward, KvBatch } from './cache.js'
import type { BatchSupport, OnnxDecoder } from './model.js'
import { floatsOf, type Part } from './tensors.js'

/** Largest difference of two results that counts as rounding, relative to the largest number. */
const ROUNDING = { float32: 1e-3, float16: 2e-2 } as const
/** Token ids that every vocabulary has; the sequences have different lengths. */
const PROMPTS: ReadonlyArray<readonly number[]> = [[1, 5, 3, 7, 2], [4, 6, 1]]
const NEXT = [[3], [5]]
const PIECE = 3

/** What was found; `deviation` is the relative difference of a batch to single runs. */
export interface Probed { batching: BatchSupport, deviation: number, vocabularySize: number }

/** Largest difference relative to the largest number; infinite for NaN or different sizes. */
export function deviationOf (a: Part, b: Part): number {
  const [left, right] = [floatsOf(a), floatsOf(b)]
  if (left.length !== right.length) return Infinity
  let worst = 0
  let largest = 0
  for (let i = 0; i < left.length; i++) {
    const difference = Math.abs((left[i] as number) - (right[i] as number))
    if (Number.isNaN(difference)) return Infinity
    worst = Math.max(worst, difference)
    largest = Math.max(largest, Math.abs(left[i] as number))
  }
  return worst === 0 ? 0 : worst / largest
}

function rowDeviation (
  decoder: OnnxDecoder, alone: Forward<KvBatch>, all: Forward<KvBatch>, row: number
): number {
  const length = all.batch.lengths[row] as number
  const own = decoder.pack([{ batch: all.batch, row, length }])
  const other = decoder.pack([{ batch: alone.batch, row: 0, length }])
  const parts = own.parts.map((part, i) => deviationOf(other.parts[i] as Part, part))
  return Math.max(deviationOf(alone.logits[0] as Float32Array, all.logits[row] as Float32Array), ...parts)
}

/** Feeds each sequence its tokens, in a call of its own. */
async function feedEach (
  decoder: OnnxDecoder, batches: readonly KvBatch[], tokens: ReadonlyArray<readonly number[]>
): Promise<Array<Forward<KvBatch>>> {
  const made: Array<Forward<KvBatch>> = []
  for (const [i, batch] of batches.entries()) {
    made.push(await decoder.forward(batch, [tokens[i] as number[]], true))
  }
  return made
}

/** How far results in a batch are from those alone; infinite where the graph refuses the batch. */
async function tryBatch (
  decoder: OnnxDecoder, starts: readonly KvBatch[], alone: ReadonlyArray<Forward<KvBatch>>
): Promise<number> {
  try {
    const rows = starts.map((batch) => ({ batch, row: 0, length: batch.span }))
    const together = await decoder.forward(decoder.pack(rows), NEXT, true)
    return Math.max(...alone.map((one, row) => rowDeviation(decoder, one, together, row)))
  } catch {
    return Infinity
  }
}

async function tryPieces (decoder: OnnxDecoder, whole: Forward<KvBatch>): Promise<number> {
  const [prompt = []] = PROMPTS
  try {
    const first = await decoder.forward(decoder.empty(), [prompt.slice(0, PIECE)], false)
    const second = await decoder.forward(first.batch, [prompt.slice(PIECE)], true)
    return rowDeviation(decoder, whole, second, 0)
  } catch {
    return Infinity
  }
}

/** Finds the best batching that works, and sets it. @throws what a single run of the graph throws */
export async function probe (decoder: OnnxDecoder): Promise<Probed> {
  const rounding = ROUNDING[decoder.binding.tensors[0]?.type ?? 'float32']
  const begun = await feedEach(decoder, PROMPTS.map(() => decoder.empty()), PROMPTS)
  const [first] = begun as [Forward<KvBatch>]
  const chunked = await tryPieces(decoder, first) <= rounding
  decoder.batching = { padding: 'left', ragged: false, chunked, maxRows: 1 }
  const starts = begun.map(({ batch }) => batch)
  const deviation = decoder.binding.single ? 0 : await probeBatches(decoder, starts, rounding)
  return { batching: decoder.batching, deviation, vocabularySize: first.logits[0]?.length ?? 0 }
}

/** Sets how sequences are batched, if they can be; answers the least difference that was found. */
async function probeBatches (
  decoder: OnnxDecoder, starts: readonly KvBatch[], rounding: number
): Promise<number> {
  const { batching } = decoder
  const alone = await feedEach(decoder, starts, NEXT)
  let best = Infinity
  for (const padding of decoder.binding.mask === null ? [] : ['left', 'right'] as const) {
    decoder.batching = { ...batching, padding, ragged: true, maxRows: Infinity }
    const deviation = await tryBatch(decoder, starts, alone)
    best = Math.min(best, deviation)
    if (deviation <= rounding) return deviation
  }
  decoder.batching = batching
  const same = [starts[0], starts[0]] as KvBatch[]
  const deviation = await tryBatch(decoder, same, await feedEach(decoder, same, NEXT))
  if (deviation <= rounding) decoder.batching = { ...batching, maxRows: Infinity }
  return Math.min(best, deviation)
}
