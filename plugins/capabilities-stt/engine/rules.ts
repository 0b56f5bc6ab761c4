/** Whisper's rules of sampling: https://github.com/openai/whisper/blob/main/whisper/decoding.py */
import { STEP_SECONDS, type Vocabulary } from './tokens.js'

/** The first timestamp is at most 1 s. */
const FIRST_MOST = 1 / STEP_SECONDS
/** exp(-NEGLIGIBLE) adds nothing to a sum in single precision. */
const NEGLIGIBLE = 18

export interface Picked { token: number, logprob: number }
export interface Sampling { temperature: number, random: () => number }

/** Logarithm of the sum of exponentials of logits from `from` to before `to`. */
function logSum (logits: Float32Array, from: number, to: number, most: number): number {
  let sum = 0
  for (let id = from; id < to; id++) {
    const above = logits[id]! - most
    if (above > -NEGLIGIBLE) sum += Math.exp(above)
  }
  return most + Math.log(sum)
}

function largest (logits: Float32Array, from: number, to: number): number {
  let best = from
  for (let id = from + 1; id < to; id++) if (logits[id]! > logits[best]!) best = id
  return best
}

/** The probability of a token among all. */
export function probability (logits: Float32Array, id: number): number {
  return Math.exp(logits[id]! - logSum(logits, 0, logits.length, logits[largest(logits, 0, logits.length)]!))
}

/** The range of timestamps that may follow, and whether text may. */
function allowed (
  seen: readonly number[], { timestamps }: Vocabulary, end: number
): [from: number, to: number, hasText: boolean] {
  if (seen.length === 0) return [timestamps, Math.min(end, timestamps + FIRST_MOST + 1), false]
  const isTime = (id: number | undefined): boolean => id !== undefined && id >= timestamps
  const afterTime = isTime(seen.at(-1))
  const afterPair = afterTime && (seen.length < 2 || isTime(seen.at(-2)))
  const last = seen.findLast(isTime) ?? timestamps
  if (afterPair) return [end, end, true]
  return [last + (afterTime ? 0 : 1), end, !afterTime]
}

/**
 * The next token after `seen` (without the prefix), and its log probability among those that the rules
 * allow. Changes `logits`. After a closing timestamp come another one or the end.
 */
export function pick (
  logits: Float32Array, seen: readonly number[], vocabulary: Vocabulary, sampling: Sampling
): Picked {
  const { temperature, random } = sampling
  const { end, timestamps, suppressed, suppressedFirst } = vocabulary
  for (const id of suppressed) logits[id] = -Infinity
  if (seen.length === 0) for (const id of suppressedFirst) logits[id] = -Infinity
  const size = logits.length
  const [from, to, hasText] = allowed(seen, vocabulary, size)
  // The end may follow text and a closing timestamp.
  if (!hasText) logits.fill(-Infinity, 0, seen.length === 0 ? end + 1 : end)
  logits.fill(-Infinity, end + 1, Math.min(from, size))
  logits.fill(-Infinity, to)
  if (from > timestamps) logits.fill(-Infinity, timestamps, from)
  const best = largest(logits, 0, size)
  const most = logits[best]!
  const all = logSum(logits, 0, size, most)
  const bestText = logits[largest(logits, 0, end + 1)]!
  const isTimely = from < to && logSum(logits, from, to, most) > bestText
  const start = isTimely ? from : 0
  const norm = isTimely ? logSum(logits, from, to, most) : all
  const token = temperature === 0 ? largest(logits, start, size) : sample(logits, start, temperature, random)
  return { token, logprob: logits[token]! - norm }
}

function sample (logits: Float32Array, from: number, temperature: number, random: () => number): number {
  const most = logits[largest(logits, from, logits.length)]!
  const weights = logits.subarray(from).map((logit) => Math.exp((logit - most) / temperature))
  let left = random() * weights.reduce((sum, weight) => sum + weight, 0)
  const at = weights.findIndex((weight) => (left -= weight) < 0)
  return from + (at < 0 ? largest(weights, 0, weights.length) : at)
}
