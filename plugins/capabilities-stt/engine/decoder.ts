/** Decodes encoded windows together, one token of each per step, with the keys and values kept in place. */
import { Tensor } from 'onnxruntime-node'
import { float32, floats, type Feeds, type Whisper } from './model.js'
import { STEP_SECONDS, type Vocabulary } from './tokens.js'

interface Decoding extends Sampling {
  prefix: readonly number[]
  /** True to return the cross attention of the alignment heads. */
  hasAttention: boolean
  /** Whether a text ends early when it repeats itself. */
  isDraft: boolean
}

export interface Decoded {
  /** Without the prefix and the end. */
  tokens: number[]
  logprobs: number[]
  /** Mean log probability of the tokens and the end. */
  avg_logprob: number
  no_speech_prob: number
  /** For each token and the end, the cross attention of each alignment head. */
  attention: Float32Array[][]
}

interface Row extends Decoded { next: number, sum: number, isDone: boolean }

/** Keys and values of the rows that are still being decoded. */
class Batch {
  rows: number
  readonly #model: Whisper
  readonly #positions: number
  /** [tokens, rows, heads x size] for the key and value of each layer. */
  readonly #own: Float32Array[]
  #cross: Float32Array[]
  #tokens = 0

  private constructor (model: Whisper, rows: number, positions: number, cross: Float32Array[]) {
    this.rows = rows
    this.#model = model
    this.#positions = positions
    // Pages of memory that are never written take no space.
    this.#own = model.step.caches.map(() => new Float32Array(model.context * rows * model.width))
    this.#cross = cross
  }

  static async open (model: Whisper, encoded: readonly Float32Array[]): Promise<Batch> {
    const size = encoded[0]!.length
    const [first, ...others] = encoded as [Float32Array, ...Float32Array[]]
    const parts = await model.cross(first)
    const cross = others.length === 0 ? parts : parts.map((part) => {
      const all = new Float32Array(encoded.length * size)
      all.set(part)
      return all
    })
    for (const [i, one] of others.entries()) {
      for (const [k, part] of (await model.cross(one)).entries()) cross[k]!.set(part, (i + 1) * size)
    }
    return new Batch(model, encoded.length, size / model.width, cross)
  }

  /** Appends one token to each row; returns the logits of each, and all outputs. */
  async step (ids: readonly number[], hasAttention = false): Promise<{ logits: Float32Array[], out: Feeds }> {
    const { rows } = this
    const { step, heads, width } = this.#model
    const [at, size] = [this.#tokens++, rows * width]
    const feeds: Feeds = {
      input_ids: new Tensor('int64', BigInt64Array.from(ids, BigInt), [rows, 1]),
      cache_position: new Tensor('int64', [BigInt(at)], [1])
    }
    step.caches.forEach((name, i) => {
      feeds[name] = float32(this.#own[i]!.subarray(0, at * size), [at, rows, heads, width / heads])
    })
    step.cross.forEach((name, i) => {
      feeds[name] = float32(this.#cross[i]!, [rows, heads, this.#positions, width / heads])
    })
    const names = [step.logits, ...step.fresh, ...hasAttention ? step.attention.values() : []]
    const out = await this.#model.next(feeds, names, rows)
    step.fresh.forEach((name, i) => { this.#own[i]!.set(floats(out[name], name), at * size) })
    const logits = floats(out[step.logits], 'logits')
    const each = logits.length / rows
    return { out, logits: ids.map((_, i) => logits.subarray(i * each, (i + 1) * each)) }
  }

  /** Drops all rows but those in `kept` (ascending). */
  keep (kept: readonly number[]): void {
    const { rows } = this
    const { width } = this.#model
    for (const cache of this.#own) {
      for (let t = 0; t < this.#tokens; t++) {
        for (const [to, from] of kept.entries()) move(cache, t * rows + from, t * kept.length + to, width)
      }
    }
    this.#cross = this.#cross.map((cache) => {
      const size = cache.length / rows
      for (const [to, from] of kept.entries()) move(cache, from, to, size)
      return cache.subarray(0, size * kept.length)
    })
    this.rows = kept.length
  }
}

function move (cache: Float32Array, from: number, to: number, size: number): void {
  if (from !== to) cache.copyWithin(to * size, from * size, (from + 1) * size)
}

/** The most probable language of an encoded window. */
export async function languageOf (model: Whisper, encoded: Float32Array): Promise<string> {
  const { languages, start } = model.vocabulary
  const { logits: [logits] } = await (await Batch.open(model, [encoded])).step([start])
  return [...languages].reduce((best, one) => logits![one[1]]! > logits![best[1]]! ? one : best)[0]
}

/**
 * Decodes the encoder's outputs of equal length until each has ended, or its context is full. Returns early,
 * with the tokens so far, if the signal aborts.
 */
export async function decode (
  model: Whisper, encoded: readonly Float32Array[], decoding: Decoding, signal: AbortSignal
): Promise<Decoded[]> {
  const { prefix, hasAttention } = decoding
  const batch = await Batch.open(model, encoded)
  const all = encoded.map((): Row => ({
    tokens: [], logprobs: [], avg_logprob: 0, no_speech_prob: 0, attention: [], next: 0, sum: 0, isDone: false
  }))
  const startAt = prefix.indexOf(model.vocabulary.start)
  // Whisper writes at most half a context, and the prompt is in the other half.
  const most = Math.min(model.context, prefix.length + model.context / 2)
  let live = all
  for (let t = 0; t < most && live.length > 0 && !signal.aborted; t++) {
    const { logits, out } = await batch.step(live.map((row) => prefix[t] ?? row.next), hasAttention)
    for (const [i, row] of live.entries()) {
      if (t === startAt) row.no_speech_prob = probability(logits[i]!, model.vocabulary.noSpeech)
      if (t < prefix.length - 1) continue
      if (hasAttention) row.attention.push(attentionOf(model, out, i, batch.rows))
      advance(row, logits[i]!, model, decoding)
    }
    if (!live.some(({ isDone }) => isDone)) continue
    const kept = live.flatMap(({ isDone }, i) => isDone ? [] : [i])
    batch.keep(kept)
    live = kept.map((i) => live[i]!)
  }
  for (const row of all) row.avg_logprob = row.sum / (row.tokens.length + 1)
  return all
}

function advance (row: Row, logits: Float32Array, { vocabulary }: Whisper, decoding: Decoding): void {
  const { token, logprob } = pick(logits, row.tokens, vocabulary, decoding)
  row.sum += logprob
  row.isDone = token === vocabulary.end
  if (row.isDone) return
  row.next = token
  row.tokens.push(token)
  row.logprobs.push(logprob)
  row.isDone = loops(row.tokens, decoding.isDraft ? 3 : 8)
}

/** Whether the end has been written so many times: some decodings would go on like that for seconds. */
export function loops (tokens: readonly number[], times: number): boolean {
  return [1, 2, 3, 4, 5, 6, 7, 8].some((period) => {
    const from = tokens.length - times * period
    return from >= 0 && tokens.slice(from + period).every((token, i) => token === tokens[from + i])
  })
}

/** The cross attention of one row, by alignment head. */
function attentionOf (
  { alignment, step, heads }: Whisper, out: Feeds, row: number, rows: number
): Float32Array[] {
  return alignment.flatMap(([layer, head]) => {
    const name = step.attention.get(layer)
    if (name === undefined) return []
    const all = floats(out[name], name)
    const size = all.length / rows / heads
    return [all.slice((row * heads + head) * size, (row * heads + head + 1) * size)]
  })
}

// Whisper's rules of sampling: https://github.com/openai/whisper/blob/main/whisper/decoding.py

/** The first timestamp is at most 1 s. */
const FIRST_MOST = 1 / STEP_SECONDS
/** exp(-NEGLIGIBLE) adds nothing to a sum in single precision. */
const NEGLIGIBLE = 18

interface Picked { token: number, logprob: number }
interface Sampling { temperature: number, random: () => number }

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
