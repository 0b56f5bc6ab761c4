/** Measures of `svc bench` for chat and speech models. */
import { Mp3Time } from '../../capabilities-tts/service.js'
import { numberOf } from '../../runners/language/json.js'
import { answerOf, readDelta, usedTokens } from './answer.js'
import type { WaitClock, VerbContext } from '../../../kernel/cli/index.js'

/** One measured request. Prompts differ from their first word on, so that no prompt cache applies. */
export interface Probe { modelId: string, nonce: string, index: number, words: number, maxTokens: number }

/** Measures one kind of model. `Sample` is the result of one request, `Figures` the summary of a run. */
export interface Measure<Sample, Figures> {
  task: string
  /** Default length of a prompt in words. */
  words: number
  /** Whether answers are text tokens, so --max-tokens applies. */
  hasTokens: boolean
  /** Sends one request. Throws VerbError. */
  probe (ctx: VerbContext, pace: WaitClock, probe: Probe): Promise<Sample>
  /** Pure. `seconds`: duration of the whole run. */
  figures (samples: readonly Sample[], seconds: number): Figures
  /** Names and values of the figures that have percentiles. */
  rows (figures: Figures): [string, Spread][]
  /** The figures without percentiles, as a sentence. */
  summary (figures: Figures): string
}

/** Result of a chat request; `firstTokenMs` is null if the answer had no text. */
interface ChatSample {
  firstTokenMs: number | null
  tokens: number
  promptTokens: number | null
  /** Tokens per second after the first token. */
  rate: number | null
}

/** Rates are tokens per second. */
interface ChatFigures {
  timeToFirstTokenMs: Spread
  /** Percentiles rank from fast to slow: 99% of the requests are at least as fast as p99. */
  tokensPerSecond: Spread & { total: number | null }
  tokens: number
  promptTokens: number | null
}

export const chat: Measure<ChatSample, ChatFigures> = {
  task: 'chat', words: 64, hasTokens: true,
  async probe (ctx, pace, probe) {
    const start = pace.mono()
    let first: number | null = null
    let last = start
    let pieces = 0
    let counted: number | undefined
    let promptTokens: number | null = null
    const request = {
      model: probe.modelId, max_tokens: probe.maxTokens, temperature: 0,
      messages: [{ role: 'user' as const, content: textOf(probe) }]
    }
    for await (const part of answerOf(ctx, request, ctx.signal)) {
      if (part.kind === 'stats') {
        counted = numberOf(part.stats['generation_tokens']) ?? counted
        promptTokens = numberOf(part.stats['prompt_tokens']) ?? null
        continue
      }
      counted = usedTokens(part.chunk) ?? counted
      const { text, thought } = readDelta(part.chunk)
      if (text === '' && thought === '') continue
      last = pace.mono()
      first ??= last
      pieces++
    }
    const tokens = counted ?? pieces
    const rate = first === null || last <= first || tokens < 2 ? null : (tokens - 1) * 1000 / (last - first)
    return { firstTokenMs: first === null ? null : first - start, tokens, promptTokens, rate }
  },
  figures (samples, seconds) {
    const tokens = sum(samples.map((sample) => sample.tokens))
    const prompts = samples.map(({ promptTokens }) => promptTokens).filter((count) => count !== null)
    // Negate the rates before ranking, so that p99 is the slow end: the lowest rate.
    const slowness = spreadOf(samples.map(({ rate }) => negated(rate)))
    return {
      timeToFirstTokenMs: spreadOf(samples.map(({ firstTokenMs }) => firstTokenMs)),
      tokensPerSecond: {
        p50: negated(slowness.p50), p99: negated(slowness.p99), total: perSecond(tokens, seconds)
      },
      tokens,
      promptTokens: prompts.length === 0 ? null : Math.round(sum(prompts) / prompts.length)
    }
  },
  rows: ({ timeToFirstTokenMs, tokensPerSecond }) =>
    [['time to first token, ms', timeToFirstTokenMs], ['tokens/s per request', tokensPerSecond]],
  summary: ({ tokensPerSecond, tokens, promptTokens }) =>
    `${amount(tokensPerSecond.total)} tokens/s, ${tokens} tokens; prompts of ${amount(promptTokens)} tokens`
}

interface SpeechSample { firstByteMs: number, audioSeconds: number, realTimeFactor: number }

interface SpeechFigures {
  timeToFirstByteMs: Spread
  /** Generation time divided by audio duration. */
  realTimeFactor: Spread
  audioSeconds: number
  /** Seconds of audio per second of the whole run. */
  audioSecondsPerSecond: number | null
}

export const speech: Measure<SpeechSample, SpeechFigures> = {
  task: 'tts', words: 24, hasTokens: false,
  async probe (ctx, pace, probe) {
    const start = pace.mono()
    const { bytes } = await ctx.client.open('/v1/audio/speech', {
      body: { model: probe.modelId, input: `${textOf(probe)}.`, response_format: 'mp3' }, accept: 'audio/mpeg'
    })
    const sound = new Mp3Time()
    let first: number | null = null
    for await (const part of bytes) {
      first ??= pace.mono()
      sound.add(part)
    }
    if (first === null || sound.seconds === 0) throw ctx.fail(1, 'the node sent no audio')
    const seconds = (pace.mono() - start) / 1000
    return {
      firstByteMs: first - start, audioSeconds: sound.seconds, realTimeFactor: seconds / sound.seconds
    }
  },
  figures (samples, seconds) {
    const audioSeconds = sum(samples.map((sample) => sample.audioSeconds))
    return {
      timeToFirstByteMs: spreadOf(samples.map(({ firstByteMs }) => firstByteMs)),
      realTimeFactor: spreadOf(samples.map(({ realTimeFactor }) => realTimeFactor)),
      audioSeconds,
      audioSecondsPerSecond: perSecond(audioSeconds, seconds)
    }
  },
  rows: ({ timeToFirstByteMs, realTimeFactor }) =>
    [['time to first byte, ms', timeToFirstByteMs], ['real-time factor', realTimeFactor]],
  summary: ({ audioSecondsPerSecond, audioSeconds }) =>
    `${amount(audioSecondsPerSecond)} s of audio per second, ${amount(audioSeconds)} s; ` +
    'a real-time factor below 1 is faster than playback'
}

const WORDS = ('the river house light green stone walks under morning seven quiet birds open window paper ' +
  'mountain slow train garden blue water carries small letters over long winter road').split(' ')

/** A prompt of `words` words that no other request shares. Pure. */
export function textOf ({ nonce, index, words }: Pick<Probe, 'nonce' | 'index' | 'words'>): string {
  const rest = Array.from({ length: Math.max(0, words - 1) }, (_, i) => WORDS[(index + i) % WORDS.length]!)
  return [`${nonce}${index}`, ...rest].join(' ')
}

/** Median and 99th percentile of a value such as latency, for which lower is better. */
export interface Spread { p50: number | null, p99: number | null }

/** Ignores nulls. */
export function spreadOf (values: readonly (number | null)[]): Spread {
  const known = values.filter((value) => value !== null)
  return { p50: percentile(known, 0.5), p99: percentile(known, 0.99) }
}

/** Nearest-rank percentile, `share` from 0 to 1; null for no values. Pure. */
export function percentile (values: readonly number[], share: number): number | null {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)
const negated = (value: number | null): number | null => value === null ? null : -value
const perSecond = (amount: number, seconds: number): number | null => seconds > 0 ? amount / seconds : null

/** A number with three significant digits; `-` for null. */
export function amount (value: number | null): string {
  if (value === null) return '-'
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  return String(Number(value.toFixed(digits)))
}
