/**
 * Finds out by small runs how a graph takes several sequences: where padding goes, and whether prompts can be
 * fed in pieces. A graph that gives other results in a batch than alone gets no batch.
 *
 * Where a graph quantises all of a call by one scale, a sequence's numbers depend a little on the others.
 * There the batch is of one sequence twice, which has the scale that it has alone; and pieces are judged by
 * whether their numbers go along with those of the whole.
 */
import type { Forward, KvBatch } from './cache.js'
import type { BatchSupport, OnnxDecoder } from './model.js'
import { floatsOf, type Part } from './tensors.js'

type Tokens = ReadonlyArray<readonly number[]>

/** Largest difference of two results that counts as rounding, relative to the largest number. */
const ROUNDING = { float32: 1e-3, float16: 2e-2 } as const
/** Least correlation of numbers that differ by quantisation only; wrong ones have none, or hardly any. */
const ALONG = 0.9
/** Token ids that every vocabulary has; the sequences have different lengths. */
const PROMPTS: Tokens = [[1, 5, 3, 7, 2], [4, 6, 1]]
const NEXT: Tokens = [[3], [5]]
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

/** Pearson's correlation; NaN for different sizes, and for numbers that are all the same. */
export function correlationOf (a: Part, b: Part): number {
  const [left, right] = [floatsOf(a), floatsOf(b)]
  if (left.length !== right.length) return NaN
  const mean = (values: Float32Array): number => values.reduce((sum, value) => sum + value, 0) / values.length
  const [leftMean, rightMean] = [mean(left), mean(right)]
  let [both, squares, others] = [0, 0, 0]
  for (let i = 0; i < left.length; i++) {
    const [x, y] = [(left[i] as number) - leftMean, (right[i] as number) - rightMean]
    both += x * y
    squares += x * x
    others += y * y
  }
  return both / Math.sqrt(squares * others)
}

/** A row of a result beside the same of a single run: logits and states, as pairs. */
function pairsOf (
  decoder: OnnxDecoder, alone: Forward<KvBatch>, all: Forward<KvBatch>, row: number
): Array<[Part, Part]> {
  const length = all.batch.lengths[row] as number
  const own = decoder.pack([{ batch: all.batch, row, length }])
  const other = decoder.pack([{ batch: alone.batch, row: 0, length }])
  const parts = own.parts.map((part, i): [Part, Part] => [other.parts[i] as Part, part])
  return [[alone.logits[0] as Float32Array, all.logits[row] as Float32Array], ...parts]
}

const rowDeviation = (
  decoder: OnnxDecoder, alone: Forward<KvBatch>, all: Forward<KvBatch>, row: number
): number => Math.max(...pairsOf(decoder, alone, all, row).map(([a, b]) => deviationOf(a, b)))

/** Feeds each sequence its tokens, in a call of its own. */
async function feedEach (
  decoder: OnnxDecoder, batches: readonly KvBatch[], tokens: Tokens
): Promise<Array<Forward<KvBatch>>> {
  const made: Array<Forward<KvBatch>> = []
  for (const [i, batch] of batches.entries()) {
    made.push(await decoder.forward(batch, [tokens[i] as number[]], true))
  }
  return made
}

interface Rows { starts: readonly KvBatch[], next: Tokens }

/** How far results in a batch are from those alone; infinite where the graph refuses the batch. */
async function tryBatch (
  decoder: OnnxDecoder, { starts, next }: Rows, alone: ReadonlyArray<Forward<KvBatch>>
): Promise<number> {
  try {
    const rows = starts.map((batch) => ({ batch, row: 0, length: batch.span }))
    const together = await decoder.forward(decoder.pack(rows), next, true)
    return Math.max(...alone.map((one, row) => rowDeviation(decoder, one, together, row)))
  } catch {
    return Infinity
  }
}

/** True where a prompt in two pieces gives what it gives as a whole. */
async function tryPieces (
  decoder: OnnxDecoder, whole: Forward<KvBatch>, rounding: number, shared: boolean
): Promise<boolean> {
  const [prompt = []] = PROMPTS
  try {
    const first = await decoder.forward(decoder.empty(), [prompt.slice(0, PIECE)], false)
    const second = await decoder.forward(first.batch, [prompt.slice(PIECE)], true)
    if (!shared) return rowDeviation(decoder, whole, second, 0) <= rounding
    return pairsOf(decoder, whole, second, 0).every(([a, b]) => correlationOf(a, b) >= ALONG)
  } catch {
    return false
  }
}

/**
 * Finds the best batching that works, and sets it. `shared`: the graph quantises all of a call by one scale.
 * @throws what a single run of the graph throws
 */
export async function probe (decoder: OnnxDecoder, shared = false): Promise<Probed> {
  const rounding = ROUNDING[decoder.binding.tensors[0]?.type ?? 'float32']
  const begun = await feedEach(decoder, PROMPTS.map(() => decoder.empty()), PROMPTS)
  const [first] = begun as [Forward<KvBatch>]
  const chunked = await tryPieces(decoder, first, rounding, shared)
  decoder.batching = { padding: 'left', ragged: false, chunked, maxRows: 1 }
  const { single, mask, places } = decoder.binding
  const same = { starts: [first.batch, first.batch], next: [NEXT[0], NEXT[0]] as Tokens }
  // With room for new entries, rows of one length are padded too.
  const different = { starts: begun.map(({ batch }) => batch), next: NEXT }
  const ragged = !shared ? different : places !== null ? same : null
  const tries = { ragged: mask === null ? null : ragged, same }
  const deviation = single ? 0 : await probeBatches(decoder, tries, rounding)
  return { batching: decoder.batching, deviation, vocabularySize: first.logits[0]?.length ?? 0 }
}

/** Sets how sequences are batched, if they can be; answers the least difference that was found. */
async function probeBatches (
  decoder: OnnxDecoder, { ragged, same }: { ragged: Rows | null, same: Rows }, rounding: number
): Promise<number> {
  const { batching } = decoder
  let best = Infinity
  if (ragged !== null) {
    const alone = await feedEach(decoder, ragged.starts, ragged.next)
    for (const padding of ['left', 'right'] as const) {
      decoder.batching = { ...batching, padding, ragged: true, maxRows: Infinity }
      const deviation = await tryBatch(decoder, ragged, alone)
      best = Math.min(best, deviation)
      if (deviation <= rounding) return deviation
    }
    decoder.batching = batching
  }
  const deviation = await tryBatch(decoder, same, await feedEach(decoder, same.starts, same.next))
  if (deviation <= rounding) decoder.batching = { ...batching, maxRows: Infinity }
  return Math.min(best, deviation)
}
