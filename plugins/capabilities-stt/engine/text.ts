/** From windows of sound to segments of text: language, Whisper's thresholds and fallback, times, words. */
import { deflateSync } from 'node:zlib'
import { decode, languageOf, type Decoded } from './decoder.js'
import { RATE } from './mel.js'
import { STEP_SECONDS, type Vocabulary } from './tokens.js'
import type { Whisper } from './model.js'
import type { SttSegment } from '../service.js'
import type { SttRequest } from './request.js'
import type { Window } from './windows.js'

/** One segment as `verbose_json` has it, without its place in the answer. */
export type Segment = Omit<SttSegment, 'id' | 'final'>
type TokenLogprob = NonNullable<SttSegment['logprobs']>[number]

/** Whisper's thresholds: beyond them a text is decoded again at a higher temperature, or is silence. */
const COMPRESSION = 2.4
const LOGPROB = -1
const NO_SPEECH = 0.6
const TEMPERATURES = [0, 0.2, 0.4, 0.6, 0.8, 1]
const MOST_PROMPT = 224
/** Sound after the last timestamp that may hold words. */
const UNREAD_SECONDS = 2

interface Attempt extends Decoded { temperature: number, compression_ratio: number }

/** Bytes of a text per byte when compressed: repetition compresses well. */
export function compressionOf (text: string): number {
  const bytes = Buffer.from(text)
  return bytes.length === 0 ? 0 : bytes.length / deflateSync(bytes).length
}

type Quality = Pick<Segment, 'no_speech_prob' | 'avg_logprob' | 'compression_ratio'>

const isSilent = ({ no_speech_prob: silence, avg_logprob: logprob }: Quality): boolean =>
  silence > NO_SPEECH && logprob < LOGPROB

export const isPoor = (text: Quality): boolean => !isSilent(text) &&
  (text.compression_ratio > COMPRESSION || text.avg_logprob < LOGPROB)

/** Writes the windows of one task. */
export class Writer {
  language: string | undefined
  readonly #model: Whisper
  readonly #request: SttRequest
  readonly #random: () => number
  readonly #signal: AbortSignal

  constructor (model: Whisper, request: SttRequest, random: () => number, signal: AbortSignal) {
    this.#model = model
    this.#request = request
    this.#random = random
    this.#signal = signal
    this.language = request.language ?? (model.vocabulary.languages.size === 0 ? 'en' : undefined)
  }

  /** Segments of each window, which are decoded together; `isDraft` decodes once, whatever comes out. */
  async write (windows: readonly Window[], isDraft = false): Promise<Segment[][]> {
    const model = this.#model
    const encoded = await model.encode(windows.map(({ samples }) => samples), this.#signal)
    if (this.#signal.aborted) return []
    this.language ??= await languageOf(model, encoded[0]!)
    const attempts = await this.#attempts(encoded, isDraft)
    if (this.#signal.aborted) return []
    const written = windows.map((window, i) => this.#segments(window, attempts[i]!))
    // Whisper may stop early, so sound after its last timestamp is decoded again.
    for (const [i, { samples, start }] of windows.entries()) {
      const from = Math.round(((written[i]!.at(-1)?.end ?? Infinity) - start) * RATE)
      if (isDraft || from < RATE || samples.length - from < UNREAD_SECONDS * RATE) continue
      const [rest = []] = await this.write([{ samples: samples.slice(from), start: start + from / RATE }])
      written[i]!.push(...rest)
    }
    return written
  }

  async #attempts (encoded: readonly Float32Array[], isDraft: boolean): Promise<Attempt[]> {
    const { vocabulary, alignment } = this.#model
    const { task, prompt, temperature, words } = this.#request
    const attempts: Attempt[] = []
    let open = encoded.map((_, i) => i)
    for (const now of temperature > 0 || isDraft ? [temperature] : TEMPERATURES) {
      const decoded = await decode(this.#model, open.map((i) => encoded[i]!), {
        prefix: vocabulary.prefix(this.language!, task, now > temperature ? '' : prompt, MOST_PROMPT),
        temperature: now, random: this.#random, isDraft,
        hasAttention: words && !isDraft && alignment.length > 0
      }, this.#signal)
      if (this.#signal.aborted) return []
      for (const [k, i] of open.entries()) {
        const ratio = compressionOf(vocabulary.text(decoded[k]!.tokens))
        attempts[i] = { ...decoded[k]!, temperature: now, compression_ratio: ratio }
      }
      open = open.filter((i) => isPoor(attempts[i]!))
      if (open.length === 0) break
    }
    return attempts
  }

  #segments ({ samples, start }: Window, attempt: Attempt): Segment[] {
    if (isSilent(attempt)) return []
    const { vocabulary } = this.#model
    const { words, logprobs } = this.#request
    const seconds = samples.length / RATE
    return piecesOf(attempt.tokens, vocabulary, seconds).map(({ from, to, first, last }) => {
      const own = attempt.tokens.slice(from, to)
      const textual = [...own.keys()].filter((i) => own[i]! < vocabulary.end).map((i) => from + i)
      const times = { start: start + first, end: start + last }
      return {
        ...times, text: vocabulary.text(own), tokens: own, temperature: attempt.temperature,
        avg_logprob: attempt.avg_logprob, compression_ratio: attempt.compression_ratio,
        no_speech_prob: attempt.no_speech_prob,
        ...words ? { words: wordTimes(vocabulary, attempt, textual, times, start, this.language!) } : {},
        ...logprobs ? { logprobs: textual.map((i) => logprobOf(vocabulary, attempt, i)) } : {}
      }
    }).filter(({ text }) => text.trim() !== '')
  }
}

function logprobOf (vocabulary: Vocabulary, { tokens, logprobs }: Decoded, i: number): TokenLogprob {
  const bytes = [...vocabulary.bytes(tokens[i]!)]
  return { token: vocabulary.text([tokens[i]!]), logprob: logprobs[i]!, bytes }
}

/** Runs of tokens between timestamps, with their times in the window; the last one may lack its end. */
export function piecesOf (
  tokens: readonly number[], { timestamps }: Pick<Vocabulary, 'timestamps'>, seconds: number
): { from: number, to: number, first: number, last: number }[] {
  const pieces = []
  let from = 0
  for (let to = 1; to <= tokens.length; to++) {
    const isText = tokens[to - 1]! < timestamps
    const isEnd = to === tokens.length || (!isText && to - from > 1)
    if (!isEnd) {
      // Of several timestamps in a row the last one is the start.
      if (!isText) from = to - 1
      continue
    }
    const timeOf = (id: number, other: number): number =>
      Math.min(seconds, id < timestamps ? other : (id - timestamps) * STEP_SECONDS)
    const first = timeOf(tokens[from]!, 0)
    if (to - from > 1 || isText) {
      pieces.push({ from, to, first, last: Math.max(first, timeOf(tokens[to - 1]!, seconds)) })
    }
    from = to
  }
  return pieces
}

interface TimedWord { word: string, start: number, end: number }

/**
 * The words of the tokens at `at`, whose segment has the times `times`; `start` is that of the window. All in
 * seconds, from the cross attention if the export has it, else in proportion to the lengths of the words.
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
