/** The measures of `svc bench`. */
import { numberOf } from '../../runners/language/json.js'
import { answerOf, readDelta, usedTokens } from './answer.js'
import type { WaitClock, VerbContext } from '../../../kernel/cli/index.js'

/** One measured request. Prompts differ from their first word on, so that no prompt cache applies. */
export interface Probe { modelId: string, nonce: string, index: number, words: number, maxTokens: number }

/** Result of a chat request; `firstTokenMs` is null if the answer had no text. */
export interface ChatSample {
  firstTokenMs: number | null
  tokens: number
  promptTokens: number | null
  /** Tokens per second after the first token. */
  rate: number | null
}

/** Rates are tokens per second. */
export interface ChatFigures {
  timeToFirstTokenMs: Spread
  /** Percentiles rank from fast to slow: 99% of the requests are at least as fast as p99. */
  tokensPerSecond: Spread & { total: number | null }
  tokens: number
  promptTokens: number | null
}

export const chat = {
  /** Sends one request. Throws VerbError. */
  async probe (ctx: VerbContext, pace: WaitClock, probe: Probe): Promise<ChatSample> {
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
  /** Pure. `seconds`: duration of the whole run. */
  figures (samples: readonly ChatSample[], seconds: number): ChatFigures {
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
  /** Names and values of the figures that have percentiles. */
  rows: ({ timeToFirstTokenMs, tokensPerSecond }: ChatFigures): [string, Spread][] =>
    [['time to first token, ms', timeToFirstTokenMs], ['tokens/s per request', tokensPerSecond]],
  /** The figures without percentiles, as a sentence. */
  summary: ({ tokensPerSecond, tokens, promptTokens }: ChatFigures): string =>
    `${amount(tokensPerSecond.total)} tokens/s, ${tokens} tokens; prompts of ${amount(promptTokens)} tokens`
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
