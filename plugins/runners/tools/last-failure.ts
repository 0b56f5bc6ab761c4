import { fact, quoted, createToolReads, showTime, withoutFullStop } from '../../../kernel/cli/index.js'
import type { Evidence, Fact, ToolReads, Tool } from '../../../kernel/cli/index.js'
import { capacityRemedy, remediesIn } from '../service.js'
import type { Remedies } from '../service.js'
import type { ShownSpan, TraceHead } from '../../tracing/service.js'

const READ = 500
const TOLD = 5

type Fields = Readonly<Record<string, string | undefined>>
interface Happened { idx: number, at: string, event: Readonly<Record<string, Fields>> }
/** A trace as listed by GET /v1/traces/cluster. */
interface Listed extends Pick<TraceHead, 'taskId' | 'commandId' | 'modelId' | 'createdAt' | 'durationUs'> {
  outcome: string
}

interface Failure {
  taskId: string, commandId: string | undefined, modelId: string | null, ms: number
  reason: string | null, message: string | null, evidence: Evidence[]
}

/** Lists the latest failed requests with their ids, reasons and remedies. */
export default {
  async run (ctx, { model }) {
    const api = createToolReads(ctx)
    const [page, list] = await Promise.all([
      api.read<{ events: Happened[] }>('The requests that failed', `/events?kinds=TaskFailed&limit=${READ}`),
      // The route is missing if tracing is off.
      api.read<{ traces: Listed[] }>('The traces', `/v1/traces/cluster?limit=${READ}`, 'plugin_disabled')
    ])
    const all = failuresOf(page?.events ?? [], list?.traces ?? [])
    const wanted = await Promise.all(all.filter((one) => model === undefined || one.modelId === model)
      .slice(0, TOLD).map(async (one) => ({ ...one, reason: one.reason ?? await reasonOf(api, one) })))
    const remedies = wanted.length === 0 ? {} : remediesIn(await ctx.declared())
    const none = page === null ? [] : [nothing(model)]
    return {
      facts: wanted.length === 0 ? none : wanted.map((one) => factOf(one, remedies, ctx.nowMs)),
      unknown: api.unknown
    }
  }
} satisfies Tool<{ model?: string }>

/** Failed requests from events and traces, each once, newest first. */
function failuresOf (events: readonly Happened[], traces: readonly Listed[]): Failure[] {
  const traceOf = new Map(traces.map((trace) => [trace.taskId, trace]))
  const reported = events.flatMap(({ idx, at, event }): Failure[] => {
    const { TaskFailed: fields } = event
    if (fields?.['taskId'] === undefined) return []
    const { taskId, commandId, errorType = null, errorMessage = null } = fields
    const trace = traceOf.get(taskId!)
    return [{
      taskId: taskId!, commandId, ms: Date.parse(at), reason: errorType, message: errorMessage,
      // The event has no model field, but the node's own message contains the model.
      modelId: trace?.modelId ?? modelIn(errorMessage),
      evidence: [
        { kind: 'event', idx, at, name: 'TaskFailed' }, ...trace === undefined ? [] : [traced(taskId!)]
      ]
    }]
  })
  const known = new Set(reported.map(({ taskId }) => taskId))
  const others = traces.filter(({ outcome, taskId }) => outcome === 'failed' && !known.has(taskId))
    .map(({ taskId, commandId, modelId, createdAt, durationUs }): Failure => ({
      taskId, commandId, modelId, ms: Date.parse(createdAt) + durationUs / 1000, reason: null, message: null,
      evidence: [traced(taskId)]
    }))
  return [...reported, ...others].sort((a, b) => b.ms - a.ms)
}

async function reasonOf ({ read }: ToolReads, { taskId }: Failure): Promise<string | null> {
  const trace = await read<{ traces: ShownSpan[] }>(`The trace ${quoted(taskId, 80)}`,
    `/v1/traces/cluster/${encodeURIComponent(taskId)}`, 'trace_not_found')
  const { reason } = trace?.traces.find(({ category }) => category === 'request')?.attrs ?? {}
  return typeof reason === 'string' ? reason : null
}

const traced = (taskId: string): Evidence => ({ kind: 'trace', taskId })

/** The model in a message "The task of acme/voice failed with …"; null for any other message. */
const modelIn = (message: string | null): string | null =>
  /^The task of (\S{3,193}) failed with /.exec(message ?? '')?.[1] ?? null

function factOf (failure: Failure, remedies: Remedies, nowMs: number): Fact {
  const { taskId, commandId, reason, message, ms, evidence } = failure
  const model = failure.modelId === null ? null : quoted(failure.modelId)
  const why = reason === null ? '' : ` with ${quoted(reason, 60)}`
  // Omit the node's own message, because the sentence already contains the same facts.
  const suffix = message === null || modelIn(message) !== null ? '' : `: ${withoutFullStop(message, 300)}`
  const ids = [quoted(taskId, 80), ...commandId === undefined ? [] : [quoted(commandId, 80)]]
  return fact('info', reason === null ? 'request_failed' : quoted(reason, 60),
    `At ${showTime(ms, nowMs)} a request${model === null ? '' : ` of ${model}`} failed${why}${suffix} ` +
    `(task ${ids.join(', command ')}).`, {
      about: [...model === null ? [] : [model], ...ids],
      evidence: reason === null ? evidence : [...evidence, { kind: 'error', reason: quoted(reason, 60) }],
      remedy: remedyOf(reason, remedies[reason ?? ''], model, ids[0]!)
    })
}

/** The declared remedy, followed by the command with all details. */
function remedyOf (
  reason: string | null, declared: { remedy: string } | undefined, model: string | null, taskId: string
): string {
  const busy = reason === 'overloaded' && model !== null ? capacityRemedy(model) : undefined
  const remedy = busy ?? declared?.remedy.replaceAll('MODEL', model ?? 'MODEL')
  const why = `\`svc why ${taskId}\` shows all details`
  return remedy === undefined ? `${why}.` : `${remedy.replace(/\.$/, '')}; ${why}.`
}

function nothing (model?: string): Fact {
  const of = model === undefined ? '' : ` of ${quoted(model)}`
  return fact('ok', 'no_failure', `No request${of} has failed, as far as the event log shows.`,
    { evidence: [{ kind: 'path', path: '/events?kinds=TaskFailed' }] })
}
