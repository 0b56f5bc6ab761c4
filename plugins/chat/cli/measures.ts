/** What `svc bench` measures of chat and of speech models: one request, and the figures of many. */
import { Mp3Time } from '../../capabilities-tts/service.js'
import { numberOf } from '../../runners/language/json.js'
import { answerOf, readDelta, usedTokens } from './answer.js'
import type { WaitClock, VerbContext } from '../../../kernel/cli/index.js'

/** One request that is measured; no two texts begin alike, so that nothing is answered from a cache. */
export interface Probe { modelId: string, nonce: string, index: number, words: number, maxTokens: number }

/** What is measured of a kind of model: `Sample` of a request, `Figures` of all of them. */
export interface Measure<Sample, Figures> {
  /** The task of the models. */
  task: string
  /** Words of a prompt when nothing else is asked for. */
  words: number
  /** Whether its answers are tokens of text, so that they can be limited. */
  hasTokens: boolean
  /** Makes a request. Throws VerbError. */
  probe (ctx: VerbContext, pace: WaitClock, probe: Probe): Promise<Sample>
  /** Pure. `seconds`: how long all of them took together. */
  figures (samples: readonly Sample[], seconds: number): Figures
  /** The figures that have a spread, and their names. */
  rows (figures: Figures): [string, Spread][]
  /** The other figures, in a sentence. */
  summary (figures: Figures): string
}

/** What a chat request took. Null where the answer had no text. */
interface ChatSample {
  firstTokenMs: number | null
  tokens: number
  promptTokens: number | null
  /** Tokens per second after the first one. */
  rate: number | null
}

/** Figures of all chat requests. Rates are tokens per second. */
interface ChatFigures {
  timeToFirstTokenMs: Spread
  /** Of the requests: the middle one, and the slowest of a hundred. */
  tokensPerSecond: Spread & { total: number | null }
  tokens: number
  promptTokens: number | null
}

/** Chat models: the time to the first token, and the speed. */
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
    // The slow end of a speed is the low one.
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
    [['time to first token, ms', timeToFirstTokenMs], ['tokens/s of a request', tokensPerSecond]],
  summary: ({ tokensPerSecond, tokens, promptTokens }) =>
    `${amount(tokensPerSecond.total)} tokens/s, ${tokens} tokens; prompts of ${amount(promptTokens)} tokens`
}

/** What a speech request took. */
interface SpeechSample { firstByteMs: number, audioSeconds: number, realTimeFactor: number }

interface SpeechFigures {
  timeToFirstByteMs: Spread
  /** Time to speak by time to listen. */
  realTimeFactor: Spread
  audioSeconds: number
  /** Of sound in a second of all requests together. */
  audioSecondsPerSecond: number | null
}

/** Speech models: the time to the first byte, and the real-time factor. */
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
    if (first === null || sound.seconds === 0) throw ctx.fail(1, 'the node answered without any sound')
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
    `${amount(audioSecondsPerSecond)} s of sound in a second, ${amount(audioSeconds)} s; ` +
    'a real-time factor under 1 is faster than it is heard'
}

const WORDS = ('the river house light green stone walks under morning seven quiet birds open window paper ' +
  'mountain slow train garden blue water carries small letters over long winter road').split(' ')

/** A text of so many words. Pure. */
export function textOf ({ nonce, index, words }: Pick<Probe, 'nonce' | 'index' | 'words'>): string {
  const rest = Array.from({ length: Math.max(0, words - 1) }, (_, i) => WORDS[(index + i) % WORDS.length]!)
  return [`${nonce}${index}`, ...rest].join(' ')
}

/** The middle and the slow end of a time or of another value of which less is better. */
export interface Spread { p50: number | null, p99: number | null }

/** The spread of those values that are there. */
export function spreadOf (values: readonly (number | null)[]): Spread {
  const known = values.filter((value) => value !== null)
  return { p50: percentile(known, 0.5), p99: percentile(known, 0.99) }
}

/** The least value that at least `share` (0 to 1) of the values do not exceed; null for no values. Pure. */
export function percentile (values: readonly number[], share: number): number | null {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)
const negated = (value: number | null): number | null => value === null ? null : -value
const perSecond = (amount: number, seconds: number): number | null => seconds > 0 ? amount / seconds : null

/** A figure with three significant digits; `-` for none. */
export function amount (value: number | null): string {
  if (value === null) return '-'
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  return String(Number(value.toFixed(digits)))
}
