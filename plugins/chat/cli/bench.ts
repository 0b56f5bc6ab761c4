import { randomBytes } from 'node:crypto'
import { patiently, plain, readModelId, realPace } from '../../../kernel/cli/index.js'
import type { ModelCard } from '../../../kernel/index.js'
import type { Pace, Verb, VerbContext } from '../../../kernel/cli/index.js'
import { COUNT, modelPath, readNumber } from './api.js'
import { applyLoad, countFailures } from './load.js'
import type { Outcome, Spread } from './load.js'
import { chatFigures, probeChat, probeSpeech, speechFigures } from './probes.js'
import type { ChatFigures, Probe, SpeechFigures } from './probes.js'
import { instancesOf, nameOf } from './seen.js'
import type { SeenState } from './seen.js'

const REQUESTS = 10
const MAX_CONCURRENCY = 256
const MAX_TOKENS = 64
const PROMPT_WORDS = { chat: 64, tts: 24 } as const

/** A node that has a part of the model. */
interface Machine {
  nodeId: string
  name: string
  /** Of the model's backends, those the node has; the first one is used unless its settings say otherwise. */
  backends: string[]
  chip: string | null
  accelerator: string | null
}

/** What is measured, where, and how that went. */
interface Run {
  modelId: string
  engine: string
  machines: Machine[]
  requests: number
  concurrency: number
  promptWords: number
  /** Null where the model makes no tokens of text. */
  maxTokens: number | null
  completed: number
  failed: number
  /** Ended by Ctrl-C. */
  interrupted: boolean
  seconds: number
  errors: { message: string, count: number }[]
}

/** What `svc bench --json` prints. */
type Report = Run & (({ task: 'chat' } & ChatFigures) | ({ task: 'tts' } & SpeechFigures))

/** How a run is made, from the options. */
interface Plan {
  modelId: string
  task: 'chat' | 'tts'
  requests: number
  concurrency: number
  words: number
  maxTokens: number
}

/** `svc bench`. `nonce` is new text for every run: a node keeps what it has read before. */
export function createBench (pace: Pace, nonce: () => string): Verb {
  return {
    async run (ctx, [model], options) {
      const modelId = readModelId(ctx, model!)
      readPlan(ctx, modelId, 'chat', options)
      const { card } = await ctx.client.json<{ card: ModelCard }>(modelPath(modelId, 'card'))
      const plan = readPlan(ctx, modelId, taskOf(ctx, card, options), options)
      await warmUp(ctx, pace, plan, nonce())
      const machines = machinesOf(await ctx.client.json<SeenState>('/state'), card)
      const report = await measure(ctx, pace, plan, { nonce: nonce(), engine: card.engine, machines })
      ctx.err.end()
      if (ctx.out.json) ctx.out.value(report)
      else show(ctx, report)
      if (report.interrupted) return 130
      return report.failed > 0 ? 1 : 0
    }
  }
}

export default createBench(realPace, () => randomBytes(3).toString('hex'))

function taskOf (
  ctx: VerbContext, { modelId, tasks }: ModelCard, options: Record<string, unknown>
): Plan['task'] {
  if (tasks.includes('chat')) return 'chat'
  if (!tasks.includes('tts')) {
    throw ctx.fail(2, plain(`${modelId} is for ${tasks.join(', ') || 'no task'}; chat and tts are measured`))
  }
  if (options['maxTokens'] === undefined) return 'tts'
  throw ctx.fail(2, `--max-tokens: ${modelId} speaks; --prompt-tokens sets how many words`)
}

function readPlan (
  ctx: VerbContext, modelId: string, task: Plan['task'], options: Record<string, unknown>
): Plan {
  const requests = readNumber(ctx, '--requests', options['requests'], COUNT) ?? REQUESTS
  const concurrency = readNumber(ctx, '--concurrency', options['concurrency'],
    { ...COUNT, max: MAX_CONCURRENCY }) ?? 1
  const maxTokens = readNumber(ctx, '--max-tokens', options['maxTokens'], COUNT) ?? MAX_TOKENS
  const words = readNumber(ctx, '--prompt-tokens', options['promptTokens'], { ...COUNT, max: 1_000_000 })
  return { modelId, task, requests, concurrency, maxTokens, words: words ?? PROMPT_WORDS[task] }
}

/** The first request loads what is loaded on demand; it is not counted, and its error ends the verb. */
async function warmUp (ctx: VerbContext, pace: Pace, plan: Plan, nonce: string): Promise<void> {
  ctx.err.update('warming up')
  const probe = { ...plan, nonce, index: 0 }
  await patiently(ctx, () => ctx.signal.aborted, async () => {
    if (plan.task === 'chat') await probeChat(ctx, pace, probe)
    else await probeSpeech(ctx, pace, probe)
  }).finally(() => { ctx.err.end() })
}

function machinesOf (state: SeenState, { modelId, backends }: ModelCard): Machine[] {
  const nodeIds = instancesOf(state, modelId).flatMap(({ nodes }) => nodes.map(({ nodeId }) => nodeId))
  return [...new Set(nodeIds)].map((nodeId) => {
    const there = state.nodeResources[nodeId]?.backends ?? []
    return {
      nodeId,
      name: nameOf(state, nodeId),
      backends: backends.filter((backend) => there.includes(backend)),
      chip: state.nodeIdentities[nodeId]?.chipId ?? null,
      accelerator: state.nodeSystem[nodeId]?.accelerator?.name ?? null
    }
  })
}

async function measure (
  ctx: VerbContext, pace: Pace, plan: Plan, about: Pick<Run, 'engine' | 'machines'> & { nonce: string }
): Promise<Report> {
  const { modelId, task, requests, concurrency, words: promptWords } = plan
  const { nonce, engine, machines } = about
  const started = pace.mono()
  const seconds = (): number => (pace.mono() - started) / 1000
  const run = async <S>(one: (probe: Probe) => Promise<S>): Promise<Outcome<S>> =>
    await applyLoad({ requests, concurrency, signal: ctx.signal },
      async (index) => await one({ ...plan, nonce, index }),
      (count) => { ctx.err.update(`${count} of ${requests} requests`) })
  const runOf = ({ samples, failures }: Outcome<unknown>, maxTokens: number | null): Run => ({
    modelId, engine, machines, requests, concurrency, promptWords, maxTokens,
    completed: samples.length, failed: failures.length, interrupted: ctx.signal.aborted,
    seconds: seconds(), errors: countFailures(failures)
  })
  if (task === 'chat') {
    const outcome = await run((probe) => probeChat(ctx, pace, probe))
    const whole = runOf(outcome, plan.maxTokens)
    return { task, ...whole, ...chatFigures(outcome.samples, whole.seconds) }
  }
  const outcome = await run((probe) => probeSpeech(ctx, pace, probe))
  const whole = runOf(outcome, null)
  return { task, ...whole, ...speechFigures(outcome.samples, whole.seconds) }
}

function show ({ out, err }: VerbContext, report: Report): void {
  const { modelId, engine, task, machines, completed, failed, requests, concurrency, seconds } = report
  const where = machines.map(machineText).join('; ') || 'a node that /state does not name'
  out.line(plain(`${modelId} (${task}, engine ${engine}) on ${where}`))
  out.line(`${completed} of ${requests} requests in ${amount(seconds)} s, ${concurrency} at once, ` +
    `${failed} failed`)
  out.line('')
  out.table(['', 'P50', 'P99'], report.task === 'chat'
    ? [row('time to first token, ms', report.timeToFirstTokenMs),
        row('tokens/s of a request', report.tokensPerSecond)]
    : [row('time to first byte, ms', report.timeToFirstByteMs),
        row('real-time factor', report.realTimeFactor)])
  out.line('')
  out.line(report.task === 'chat'
    ? `in all: ${amount(report.tokensPerSecond.total)} tokens/s, ${report.tokens} tokens; ` +
    `prompts of ${amount(report.promptTokens)} tokens`
    : `in all: ${amount(report.audioSecondsPerSecond)} s of sound in a second, ` +
      `${amount(report.audioSeconds)} s; a real-time factor under 1 is faster than it is heard`)
  for (const { message, count } of report.errors) err.line(`${count} x ${plain(message)}`)
  if (report.interrupted) err.line('ended by Ctrl-C; the figures are of what was complete by then')
}

function machineText ({ name, backends, chip, accelerator }: Machine): string {
  const facts = [backends.join('/'), accelerator, chip].filter((fact) => fact !== null && fact !== '')
  return facts.length === 0 ? name : `${name} (${facts.join(', ')})`
}

const row = (what: string, { p50, p99 }: Spread): string[] => [what, amount(p50), amount(p99)]

/** A figure with three digits that count; `-` for none. */
function amount (value: number | null): string {
  if (value === null) return '-'
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  return String(Number(value.toFixed(digits)))
}
