import type { Pace, VerbContext } from '../../../kernel/cli/index.js'
import { answerOf, readDelta, usedTokens } from './answer.js'
import { Mp3Time } from '../../capabilities-tts/service.js'
import { spreadOf } from './load.js'
import type { Spread } from './load.js'

/** One request that is measured; no two texts begin alike, so that nothing is answered from a cache. */
export interface Probe { modelId: string, nonce: string, index: number, words: number, maxTokens: number }

/** What a chat request took. Null where the answer had no text. */
export interface ChatSample {
  firstTokenMs: number | null
  tokens: number
  promptTokens: number | null
  /** Tokens per second after the first one. */
  rate: number | null
}

/** What a speech request took. */
export interface SpeechSample { firstByteMs: number, audioSeconds: number, realTimeFactor: number }

const WORDS = ('the river house light green stone walks under morning seven quiet birds open window paper ' +
  'mountain slow train garden blue water carries small letters over long winter road').split(' ')

/** A text of so many words. Pure. */
export function textOf ({ nonce, index, words }: Pick<Probe, 'nonce' | 'index' | 'words'>): string {
  const rest = Array.from({ length: Math.max(0, words - 1) }, (_, i) => WORDS[(index + i) % WORDS.length]!)
  return [`${nonce}${index}`, ...rest].join(' ')
}

/** Asks for one answer. Throws VerbError. */
export async function probeChat (ctx: VerbContext, pace: Pace, probe: Probe): Promise<ChatSample> {
  const start = pace.mono()
  let first: number | null = null
  let last = start
  let pieces = 0
  let told: number | null = null
  let promptTokens: number | null = null
  const ask = {
    model: probe.modelId, max_tokens: probe.maxTokens, temperature: 0,
    messages: [{ role: 'user' as const, content: textOf(probe) }]
  }
  for await (const part of answerOf(ctx, ask, ctx.signal)) {
    if (part.kind === 'stats') {
      told = part.stats.tokens ?? told
      promptTokens = part.stats.promptTokens
      continue
    }
    told = usedTokens(part.chunk) ?? told
    const { text, thought } = readDelta(part.chunk)
    if (text === '' && thought === '') continue
    last = pace.mono()
    first ??= last
    pieces++
  }
  const tokens = told ?? pieces
  const rate = first === null || last <= first || tokens < 2 ? null : (tokens - 1) * 1000 / (last - first)
  return { firstTokenMs: first === null ? null : first - start, tokens, promptTokens, rate }
}

/** Has one text spoken. Throws VerbError, also when there is no sound. */
export async function probeSpeech (ctx: VerbContext, pace: Pace, probe: Probe): Promise<SpeechSample> {
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
}

/** Figures of all chat requests. Rates are tokens per second. */
export interface ChatFigures {
  timeToFirstTokenMs: Spread
  /** Of the requests: the middle one, and the slowest of a hundred. */
  tokensPerSecond: Spread & { total: number | null }
  tokens: number
  promptTokens: number | null
}

/** Figures of all speech requests. */
export interface SpeechFigures {
  timeToFirstByteMs: Spread
  /** Time to speak by time to listen. */
  realTimeFactor: Spread
  audioSeconds: number
  /** Of sound in a second of all requests together. */
  audioSecondsPerSecond: number | null
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)
const perSecond = (amount: number, seconds: number): number | null => seconds > 0 ? amount / seconds : null

/** Pure. `seconds`: how long all of them took together. */
export function chatFigures (samples: readonly ChatSample[], seconds: number): ChatFigures {
  const tokens = sum(samples.map((sample) => sample.tokens))
  const prompts = samples.map(({ promptTokens }) => promptTokens).filter((count) => count !== null)
  const slowness = spreadOf(samples.map(({ rate }) => rate === null ? null : -rate))
  const rate = (value: number | null): number | null => value === null ? null : -value
  return {
    timeToFirstTokenMs: spreadOf(samples.map(({ firstTokenMs }) => firstTokenMs)),
    tokensPerSecond: {
      p50: rate(slowness.p50), p99: rate(slowness.p99), total: perSecond(tokens, seconds)
    },
    tokens,
    promptTokens: prompts.length === 0 ? null : Math.round(sum(prompts) / prompts.length)
  }
}

/** Pure. `seconds`: how long all of them took together. */
export function speechFigures (samples: readonly SpeechSample[], seconds: number): SpeechFigures {
  const audioSeconds = sum(samples.map((sample) => sample.audioSeconds))
  return {
    timeToFirstByteMs: spreadOf(samples.map(({ firstByteMs }) => firstByteMs)),
    realTimeFactor: spreadOf(samples.map(({ realTimeFactor }) => realTimeFactor)),
    audioSeconds,
    audioSecondsPerSecond: perSecond(audioSeconds, seconds)
  }
}
