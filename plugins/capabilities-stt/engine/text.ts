/** From windows of sound to segments of text: language, Whisper's thresholds and fallback, times, words. */
import { deflateSync } from 'node:zlib'
import { decode, languageOf, type Decoded } from './decoder.js'
import { RATE } from './mel.js'
import type { Whisper } from './model.js'
import { STEP_SECONDS, type Vocabulary } from './tokens.js'
import { wordTimes } from './words.js'
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
