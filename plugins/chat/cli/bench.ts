import { randomBytes } from 'node:crypto'
import {
  isVerbError, modelInPath, nameOf, plain, readModelId, readNumber, realPace, retryUntil, type WaitClock,
  type Verb, type VerbContext
} from '../../../kernel/cli/index.js'
import { amount, chat, type ChatFigures, type ChatSample } from './measures.js'
import { instancesOf, type StateView } from './state-view.js'
import type { ModelCard } from '../../../kernel/index.js'

const REQUESTS = 10
const MAX_CONCURRENCY = 256
const MAX_WORDS = 1_000_000
const MAX_TOKENS = 64
const PROMPT_WORDS = 64

interface Plan {
  requests: number
  /** Limit on simultaneous requests. */
  concurrency: number
  maxTokens: number
  /** Prompt length in words. */
  words: number
}

interface Machine {
  nodeId: string
  name: string
  /** Backends that model and node both support; the first is used unless node settings say otherwise. */
  backends: string[]
  chip: string | null
  accelerator: string | null
}

/** Conditions of a run; `--json` prints them together with the measured figures. */
interface Run {
  task: 'chat'
  modelId: string
  engine: string
  machines: Machine[]
  requests: number
  concurrency: number
  promptWords: number
  maxTokens: number
  completed: number
  failed: number
  /** Whether Ctrl-C ended the run. */
  interrupted: boolean
  seconds: number
  errors: { message: string, count: number }[]
}

/** `svc bench`. `nonce` returns new text for every run, so that a cache cannot answer its prompts. */
export function createBench (pace: WaitClock, nonce: () => string): Verb {
  return {
    async run (ctx, [model], options) {
      const modelId = readModelId(ctx, model!)
      const plan = readPlan(ctx, options)
      const { card } = await ctx.client.json<{ card: ModelCard }>(`/models/${modelInPath(modelId)}/card`)
      if (card.tasks.includes('chat')) return await bench(ctx, pace, nonce, card, plan)
      const tasks = card.tasks.join(', ') || 'no task'
      throw ctx.fail(2, plain(`${card.modelId} is for ${tasks}; svc bench measures chat`))
    }
  }
}

export default createBench(realPace, () => randomBytes(3).toString('hex'))

function readPlan (ctx: VerbContext, options: Record<string, unknown>): Plan {
  const read = (flag: string, field: string, max = Number.MAX_SAFE_INTEGER): number | undefined =>
    readNumber(ctx, flag, options[field], { min: 1, max })
  return {
    requests: read('--requests', 'requests') ?? REQUESTS,
    concurrency: read('--concurrency', 'concurrency', MAX_CONCURRENCY) ?? 1,
    maxTokens: read('--max-tokens', 'maxTokens') ?? MAX_TOKENS,
    words: read('--prompt-tokens', 'promptTokens', MAX_WORDS) ?? PROMPT_WORDS
  }
}

/** Measures, prints the results, and resolves to the exit status. */
async function bench (
  ctx: VerbContext, pace: WaitClock, nonce: () => string, card: ModelCard, plan: Plan
): Promise<number> {
  const { modelId, engine } = card
  const { requests, concurrency, maxTokens, words } = plan
  const probesOf = (nonce: string) => async (index: number): Promise<ChatSample> =>
    await chat.probe(ctx, pace, { modelId, nonce, index, words, maxTokens })
  await warmUp(ctx, probesOf(nonce()))
  const machines = machinesOf(await ctx.client.json<StateView>('/state'), card)
  const one = probesOf(nonce())
  const started = pace.mono()
  const { samples, failures } = await applyLoad({ requests, concurrency, signal: ctx.signal }, one,
    (count) => { ctx.err.update(`${count} of ${requests} requests`) })
  const seconds = (pace.mono() - started) / 1000
  const run: Run = {
    task: 'chat', modelId, engine, machines, requests, concurrency, promptWords: words, maxTokens,
    completed: samples.length, failed: failures.length, interrupted: ctx.signal.aborted, seconds,
    errors: countFailures(failures)
  }
  const figures = chat.figures(samples, seconds)
  ctx.err.end()
  if (ctx.out.json) ctx.out.value({ ...run, ...figures })
  else show(ctx, run, figures)
  if (run.interrupted) return 130
  return run.failed > 0 ? 1 : 0
}

/** Sends a first request, which may load the model. It is not counted; an error ends the command. */
async function warmUp (ctx: VerbContext, probe: (index: number) => Promise<unknown>): Promise<void> {
  ctx.err.update('warming up')
  await retryUntil(ctx, () => ctx.signal.aborted, async () => { await probe(0) })
    .finally(() => { ctx.err.end() })
}

function machinesOf (state: StateView, { modelId, backends }: ModelCard): Machine[] {
  const nodeIds = instancesOf(state, modelId).flatMap(({ nodes }) => nodes.map(({ nodeId }) => nodeId))
  return [...new Set(nodeIds)].map((nodeId) => {
    const there = state.nodeResources[nodeId]?.backends ?? []
    return {
      nodeId, name: nameOf(state, nodeId),
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
export async function applyLoad<Sample> (
  { requests, concurrency, signal }: Pick<Plan, 'requests' | 'concurrency'> & { signal: AbortSignal },
  one: (index: number) => Promise<Sample>, done: (count: number) => void
): Promise<{ samples: Sample[], failures: string[] }> {
  const samples: Sample[] = []
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
export function countFailures (messages: readonly string[]): Run['errors'] {
  const counts = new Map<string, number>()
  for (const message of messages) counts.set(message, (counts.get(message) ?? 0) + 1)
  return [...counts].map(([message, count]) => ({ message, count })).sort((a, b) => b.count - a.count)
}

function show ({ out, err }: VerbContext, run: Run, figures: ChatFigures): void {
  const where = run.machines.map(machineText).join('; ') || 'an unknown node'
  out.line(plain(`${run.modelId} (${run.task}, engine ${run.engine}) on ${where}`))
  out.line(`${run.completed} of ${run.requests} requests in ${amount(run.seconds)} s, ` +
    `${run.concurrency} at once, ${run.failed} failed`)
  out.line('')
  out.table(['', 'P50', 'P99'],
    chat.rows(figures).map(([what, { p50, p99 }]) => [what, amount(p50), amount(p99)]))
  out.line('')
  out.line(`total: ${chat.summary(figures)}`)
  for (const { message, count } of run.errors) err.line(`${count} x ${plain(message)}`)
  if (run.interrupted) err.line('ended by Ctrl-C; the figures cover the completed requests')
}

function machineText ({ name, backends, chip, accelerator }: Machine): string {
  const facts = [backends.join('/'), accelerator, chip].filter((fact) => fact !== null && fact !== '')
  return facts.length === 0 ? name : `${name} (${facts.join(', ')})`
}
