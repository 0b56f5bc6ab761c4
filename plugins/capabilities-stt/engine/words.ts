/** Times of words: from the cross attention if the export has it, else in proportion to their lengths. */
import type { Decoded } from './decoder.js'
import { STEP_SECONDS, type Vocabulary } from './tokens.js'

export interface TimedWord { word: string, start: number, end: number }

/**
 * The words of the tokens at `at`, whose segment has the times `times`; `start` is that of the window. All in
 * seconds.
 */
export function wordTimes (
  vocabulary: Vocabulary, { tokens, attention }: Decoded, at: readonly number[],
  times: { start: number, end: number }, start: number, language: string
): TimedWord[] {
  const words = vocabulary.words(at.map((i) => tokens[i]!), language)
  const lengths = words.map(({ text }) => text.trim().length)
  const whole = lengths.reduce((sum, length) => sum + length, 0)
  const within = (time: number): number => Math.min(times.end, Math.max(times.start, time))
  const isAligned = attention.length > 0 && attention[0]!.length > 0
  const [from, to] = [times.start - start, times.end - start].map((time) => Math.round(time / STEP_SECONDS))
  const steps = isAligned && to! > from!
    ? path(at.map((i) => attention[i]!.map((head) => head.subarray(from, to))))
    : undefined
  let [token, before] = [0, 0]
  return words.map(({ text, tokens: count }, i) => {
    const spread = (length: number): number => times.start + (times.end - times.start) * length / (whole || 1)
    const own = { word: text.trim(), start: spread(before), end: spread(before += lengths[i]!) }
    if (steps !== undefined) {
      own.start = within(times.start + steps[token]! * STEP_SECONDS)
      own.end = within(times.start + (steps[token + count] ?? Infinity) * STEP_SECONDS)
    }
    token += count
    return own
  })
}

/** Mean of the heads' attention, each scaled to mean 0 and deviation 1 over the tokens at each position. */
function meanOf (attention: readonly (readonly Float32Array[])[]): Float32Array[] {
  const mean = attention.map(([first]) => new Float32Array(first!.length))
  const rows = attention.length
  for (let head = 0; head < attention[0]!.length; head++) {
    for (let x = 0; x < mean[0]!.length; x++) {
      let [sum, squares] = [0, 0]
      for (const row of attention) {
        sum += row[head]![x]!
        squares += row[head]![x]! ** 2
      }
      const deviation = Math.sqrt(Math.max(0, squares / rows - (sum / rows) ** 2)) || 1
      for (const [y, row] of attention.entries()) mean[y]![x]! += (row[head]![x]! - sum / rows) / deviation
    }
  }
  return mean
}

/** The position at which each token begins on the best monotonic path (dynamic time warping). */
export function path (attention: readonly (readonly Float32Array[])[]): number[] {
  const gain = meanOf(attention)
  const [rows, columns] = [gain.length, gain[0]!.length]
  /** How the best path comes to each place: from the left, from the row above, or from its left there. */
  const moves = gain.map(() => new Uint8Array(columns))
  let above = new Float64Array(columns)
  for (let y = 0; y < rows; y++) {
    const row = new Float64Array(columns)
    for (let x = 0; x < columns; x++) {
      const before = y === 0 ? [x === 0 ? 0 : -Infinity, -Infinity] : [above[x]!, above[x - 1] ?? -Infinity]
      const from = [row[x - 1] ?? -Infinity, ...before]
      const best = Math.max(...from)
      moves[y]![x] = from.lastIndexOf(best)
      row[x] = best + gain[y]![x]!
    }
    above = row
  }
  const starts: number[] = []
  for (let y = rows - 1, x = columns - 1; y >= 0; y--) {
    while (x > 0 && moves[y]![x] === 0) x--
    starts.unshift(x)
    if (moves[y]![x] === 2) x--
  }
  return starts
}
