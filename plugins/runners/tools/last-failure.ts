import { fact, quoted, createToolReads, showTime, withoutFullStop } from '../../../kernel/cli/index.js'
import type { Evidence, Fact, ToolReads, Tool } from '../../../kernel/cli/index.js'
import { capacityRemedy, remediesIn } from '../service.js'
import type { Remedies } from '../service.js'
import type { ShownSpan, TraceHead } from '../../tracing/service.js'

/** What is read: events and traces, and failures that are told. */
const READ = 500
const TOLD = 5

type Fields = Readonly<Record<string, string | undefined>>
interface Happened { idx: number, at: string, event: Readonly<Record<string, Fields>> }
/** A trace of GET /v1/traces/cluster. */
interface Listed extends Pick<TraceHead, 'taskId' | 'commandId' | 'modelId' | 'createdAt' | 'durationUs'> {
  outcome: string
}

/** A request that failed; `reason` is null where only its trace is there. */
interface Failure {
  taskId: string, commandId: string | undefined, modelId: string | null, ms: number
  reason: string | null, message: string | null, evidence: Evidence[]
}

/** The newest requests that failed, with their ids, the reason and what the reason asks for. */
export default {
  async run (ctx, { model }) {
    const look = createToolReads(ctx)
    const [page, list] = await Promise.all([
      look.read<{ events: Happened[] }>('The requests that failed', `/events?kinds=TaskFailed&limit=${READ}`),
      // Without tracing there are just no traces.
      look.read<{ traces: Listed[] }>('The traces', `/v1/traces/cluster?limit=${READ}`, 'plugin_disabled')
    ])
    const all = failuresOf(page?.events ?? [], list?.traces ?? [])
    const wanted = await Promise.all(all.filter((one) => model === undefined || one.modelId === model)
      .slice(0, TOLD).map(async (one) => ({ ...one, reason: one.reason ?? await reasonOf(look, one) })))
    const remedies = wanted.length === 0 ? {} : remediesIn(await ctx.declared())
    const none = page === null ? [] : [nothing(model)]
    return {
      facts: wanted.length === 0 ? none : wanted.map((one) => factOf(one, remedies, ctx.nowMs)),
      unknown: look.unknown
    }
  }
} satisfies Tool<{ model?: string }>

/** Failed requests of events and traces, each once, the newest first. */
function failuresOf (events: readonly Happened[], traces: readonly Listed[]): Failure[] {
  const traceOf = new Map(traces.map((trace) => [trace.taskId, trace]))
  const told = events.flatMap(({ idx, at, event }): Failure[] => {
    const { TaskFailed: fields } = event
    if (fields?.['taskId'] === undefined) return []
    const { taskId, commandId, errorType = null, errorMessage = null } = fields
    const trace = traceOf.get(taskId!)
    return [{
      taskId: taskId!, commandId, ms: Date.parse(at), reason: errorType, message: errorMessage,
      // The event has no field for it; the sentence of the node's own does.
      modelId: trace?.modelId ?? modelIn(errorMessage),
      evidence: [
        { kind: 'event', idx, at, name: 'TaskFailed' }, ...trace === undefined ? [] : [traced(taskId!)]
      ]
    }]
  })
  const known = new Set(told.map(({ taskId }) => taskId))
  const others = traces.filter(({ outcome, taskId }) => outcome === 'failed' && !known.has(taskId))
    .map(({ taskId, commandId, modelId, createdAt, durationUs }): Failure => ({
      taskId, commandId, modelId, ms: Date.parse(createdAt) + durationUs / 1000, reason: null, message: null,
      evidence: [traced(taskId)]
    }))
  return [...told, ...others].sort((a, b) => b.ms - a.ms)
}

async function reasonOf ({ read }: ToolReads, { taskId }: Failure): Promise<string | null> {
  const trace = await read<{ traces: ShownSpan[] }>(`The trace ${quoted(taskId, 80)}`,
    `/v1/traces/cluster/${encodeURIComponent(taskId)}`, 'trace_not_found')
  const { reason } = trace?.traces.find(({ category }) => category === 'request')?.attrs ?? {}
  return typeof reason === 'string' ? reason : null
}

const traced = (taskId: string): Evidence => ({ kind: 'trace', taskId })

/** The model of "The task of acme/voice failed with …"; null in any other sentence. */
const modelIn = (message: string | null): string | null =>
  /^The task of (\S{3,193}) failed with /.exec(message ?? '')?.[1] ?? null

function factOf (failure: Failure, remedies: Remedies, nowMs: number): Fact {
  const { taskId, commandId, reason, message, ms, evidence } = failure
  const model = failure.modelId === null ? null : quoted(failure.modelId)
  const why = reason === null ? '' : ` with ${quoted(reason, 60)}`
  // The node's own sentence only says the same again.
  const said = message === null || modelIn(message) !== null ? ''
    : `: ${withoutFullStop(message, 300)}`
  const ids = [quoted(taskId, 80), ...commandId === undefined ? [] : [quoted(commandId, 80)]]
  return fact('info', reason === null ? 'request_failed' : quoted(reason, 60),
    `At ${showTime(ms, nowMs)} a request${model === null ? '' : ` of ${model}`} failed${why}${said} ` +
    `(task ${ids.join(', command ')}).`, {
      about: [...model === null ? [] : [model], ...ids],
      evidence: reason === null ? evidence : [...evidence, { kind: 'error', reason: quoted(reason, 60) }],
      remedy: remedyOf(reason, remedies[reason ?? ''], model, ids[0]!)
    })
}

/** What is declared for the reason, where that names a command; else where to look further. */
function remedyOf (
  reason: string | null, declared: { remedy: string } | undefined, model: string | null, taskId: string
): string {
  const busy = reason === 'overloaded' && model !== null ? capacityRemedy(model) : undefined
  const told = busy ?? declared?.remedy.replaceAll('MODEL', model ?? 'MODEL')
  const why = `\`svc why ${taskId}\` tells all that is known of it`
  return told === undefined ? `${why}.` : `${told.replace(/\.$/, '')}; ${why}.`
}

function nothing (model?: string): Fact {
  const of = model === undefined ? '' : ` of ${quoted(model)}`
  return fact('ok', 'no_failure', `No request${of} has failed, as far as the event log goes back.`,
    { evidence: [{ kind: 'path', path: '/events?kinds=TaskFailed' }] })
}
