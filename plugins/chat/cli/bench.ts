import { randomBytes } from 'node:crypto'
import {
  isVerbError, modelInPath, nameOf, plain, readModelId, readNumber, realPace, retryUntil, type WaitClock,
  type Verb, type VerbContext
} from '../../../kernel/cli/index.js'
import { instancesOf, type StateView } from './state-view.js'
import { numberOf } from '../../runners/language/json.js'
import { answerOf, readDelta, usedTokens } from './answer.js'
import type { ModelCard } from '../../../kernel/index.js'

const REQUESTS = 10
const MAX_CONCURRENCY = 256
const MAX_WORDS = 1_000_000
const MAX_TOKENS = 64
const PROMPT_WORDS = 64

type Plan = ReturnType<typeof readPlan>

/** `svc bench`. `nonce` returns new text for every run, so that a cache cannot answer its prompts. */
export function createBench (pace: WaitClock, nonce: () => string): Verb {
  return {
    async run (ctx, [model], options) {
      const modelId = readModelId(ctx, model!)
      const plan = readPlan(ctx, options)
      const { card } = await ctx.client.json<{ card: ModelCard }>(`/models/${modelInPath(modelId)}/card`)
      if (card.tasks.includes('chat')) return show(ctx, await measure(ctx, pace, nonce, card, plan))
      const tasks = card.tasks.join(', ') || 'no task'
      throw ctx.fail(2, plain(`${card.modelId} is for ${tasks}; svc bench measures chat`))
    }
  }
}

export default createBench(realPace, () => randomBytes(3).toString('hex'))

function readPlan (ctx: VerbContext, options: Record<string, unknown>) {
  const read = (flag: string, field: string, max = Number.MAX_SAFE_INTEGER): number | undefined =>
    readNumber(ctx, flag, options[field], { min: 1, max })
  return {
    requests: read('--requests', 'requests') ?? REQUESTS,
    /** Limit on simultaneous requests. */
    concurrency: read('--concurrency', 'concurrency', MAX_CONCURRENCY) ?? 1,
    maxTokens: read('--max-tokens', 'maxTokens') ?? MAX_TOKENS,
    /** Prompt length in words. */
    words: read('--prompt-tokens', 'promptTokens', MAX_WORDS) ?? PROMPT_WORDS
  }
}

/** Conditions of a run, which `--json` prints together with the measured figures. */
async function measure (
  ctx: VerbContext, pace: WaitClock, nonce: () => string, card: ModelCard, plan: Plan
) {
  const { modelId, engine } = card
  const { requests, concurrency, maxTokens, words } = plan
  const probesOf = (nonce: string) => async (index: number): Promise<Sample> =>
    await sampleOf(ctx, pace, { modelId, nonce, index, words, maxTokens })
  await warmUp(ctx, probesOf(nonce()))
  const machines = machinesOf(await ctx.client.json<StateView>('/state'), card)
  const one = probesOf(nonce())
  const started = pace.mono()
  const { samples, failures } = await applyLoad({ requests, concurrency, signal: ctx.signal }, one,
    (count) => { ctx.err.update(`${count} of ${requests} requests`) })
  const seconds = (pace.mono() - started) / 1000
  ctx.err.end()
  return {
    task: 'chat', modelId, engine, machines, requests, concurrency, promptWords: words, maxTokens,
    completed: samples.length, failed: failures.length,
    /** Whether Ctrl-C ended the run. */
    interrupted: ctx.signal.aborted, seconds, errors: countFailures(failures), ...figuresOf(samples, seconds)
  }
}

/** Sends a first request, which may load the model. It is not counted; an error ends the command. */
async function warmUp (ctx: VerbContext, probe: (index: number) => Promise<unknown>): Promise<void> {
  ctx.err.update('warming up')
  await retryUntil(ctx, () => ctx.signal.aborted, async () => { await probe(0) })
    .finally(() => { ctx.err.end() })
}

function machinesOf (state: StateView, { modelId, backends }: ModelCard) {
  const nodeIds = instancesOf(state, modelId).flatMap(({ nodes }) => nodes.map(({ nodeId }) => nodeId))
  return [...new Set(nodeIds)].map((nodeId) => {
    const there = state.nodeResources[nodeId]?.backends ?? []
    return {
      nodeId, name: nameOf(state, nodeId),
      /** Backends that model and node both support; the first is used unless node settings say otherwise. */
      backends: backends.filter((backend) => there.includes(backend)),
      chip: state.nodeIdentities[nodeId]?.chipId ?? null,
      accelerator: state.nodeSystem[nodeId]?.accelerator?.name ?? null
    }
  })
}

/**
 * Runs requests in parallel until all are done or the signal aborts; requests in flight at the abort are not
 * counted. `done` gets the number of finished requests after each one. Rethrows errors other than VerbError.
 */
export async function applyLoad<Result> (
  { requests, concurrency, signal }: Pick<Plan, 'requests' | 'concurrency'> & { signal: AbortSignal },
  one: (index: number) => Promise<Result>, done: (count: number) => void
): Promise<{ samples: Result[], failures: string[] }> {
  const samples: Result[] = []
  const failures: string[] = []
  let next = 0
  const work = async (): Promise<void> => {
    while (next < requests && !signal.aborted) {
      try {
        samples.push(await one(next++))
      } catch (error) {
        if (signal.aborted) return
        if (!isVerbError(error)) throw error
        failures.push(error.message)
      }
      done(samples.length + failures.length)
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, requests) }, work))
  return { samples, failures }
}

/** Distinct messages with their counts, the most frequent first. */
export function countFailures (messages: readonly string[]): { message: string, count: number }[] {
  const counts = new Map<string, number>()
  for (const message of messages) counts.set(message, (counts.get(message) ?? 0) + 1)
  return [...counts].map(([message, count]) => ({ message, count })).sort((a, b) => b.count - a.count)
}

/** Prints the results; returns the exit status. */
function show ({ out, err }: VerbContext, run: Awaited<ReturnType<typeof measure>>): number {
  const { timeToFirstTokenMs: first, tokensPerSecond: rate, tokens, promptTokens, interrupted } = run
  const status = interrupted ? 130 : run.failed > 0 ? 1 : 0
  if (out.json) {
    out.value(run)
    return status
  }
  const where = run.machines.map(machineText).join('; ') || 'an unknown node'
  out.line(plain(`${run.modelId} (${run.task}, engine ${run.engine}) on ${where}`))
  out.line(`${run.completed} of ${run.requests} requests in ${amount(run.seconds)} s, ` +
    `${run.concurrency} at once, ${run.failed} failed`)
  out.line('')
  out.table(['', 'P50', 'P99'], [
    ['time to first token, ms', amount(first.p50), amount(first.p99)],
    ['tokens/s per request', amount(rate.p50), amount(rate.p99)]
  ])
  out.line('')
  const prompts = `prompts of ${amount(promptTokens)} tokens`
  out.line(`total: ${amount(rate.total)} tokens/s, ${tokens} tokens; ${prompts}`)
  for (const { message, count } of run.errors) err.line(`${count} x ${plain(message)}`)
  if (interrupted) err.line('ended by Ctrl-C; the figures cover the completed requests')
  return status
}

function machineText (
  { name, backends, chip, accelerator }: ReturnType<typeof machinesOf>[number]
): string {
  const facts = [backends.join('/'), accelerator, chip].filter((fact) => fact !== null && fact !== '')
  return facts.length === 0 ? name : `${name} (${facts.join(', ')})`
}

/** One measured request. Prompts differ from their first word on, so that no prompt cache applies. */
interface Probe { modelId: string, nonce: string, index: number, words: number, maxTokens: number }

/** `firstTokenMs` is null if the answer had no text; `rate` is in tokens per second after the first token. */
type Sample = Record<'firstTokenMs' | 'promptTokens' | 'rate', number | null> & { tokens: number }

/** Sends one request. Throws VerbError. */
async function sampleOf (ctx: VerbContext, pace: WaitClock, probe: Probe): Promise<Sample> {
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
}

/**
 * Rates are tokens per second; their percentiles rank from fast to slow: 99% of the requests are at least as
 * fast as p99. `seconds`: duration of the whole run. Pure.
 */
export function figuresOf (samples: readonly Sample[], seconds: number) {
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
}

const WORDS = ('the river house light green stone walks under morning seven quiet birds open window paper ' +
  'mountain slow train garden blue water carries small letters over long winter road').split(' ')

/** A prompt of `words` words that no other request shares. Pure. */
export function textOf ({ nonce, index, words }: Pick<Probe, 'nonce' | 'index' | 'words'>): string {
  const rest = Array.from({ length: Math.max(0, words - 1) }, (_, i) => WORDS[(index + i) % WORDS.length]!)
  return [`${nonce}${index}`, ...rest].join(' ')
}

/** Median and 99th percentile of a value such as latency, for which lower is better. */
interface Spread { p50: number | null, p99: number | null }

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
function amount (value: number | null): string {
  if (value === null) return '-'
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  return String(Number(value.toFixed(digits)))
}
