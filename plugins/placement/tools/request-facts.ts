import type { LogLine } from '../../../kernel/index.js'
import { isVerbError, plain, type ToolContext, type VerbError } from '../../../kernel/cli/index.js'
import { bodyOf } from '../../runners/service.js'
import type { ShownSpan, TraceHead } from '../../tracing/service.js'
import type { SeenState, SeenTask } from '../cli/state.js'

/** An event in the format of GET /events. */
export interface SeenEvent {
  idx: number
  at: string
  origin: string
  event: Record<string, Record<string, unknown>>
}

/** A log line in the format of GET /v1/logs/cluster. */
export interface SeenLine extends Pick<LogLine, 'at' | 'message' | 'fields'> { node: string }

export interface WhyState extends SeenState {
  masterNodeId?: string | null
  nodeHealth?: Record<string, { level: string, reasons: { code: string }[] }>
  cluster?: { knownNodes: number, liveNodes: number }
}

export interface StateThen { snapshot: { at: string }, state: Partial<WhyState> }

export interface RequestFacts {
  id: string
  /** Current time in ms since 1970. */
  nowMs: number
  state: WhyState
  tracing: boolean | null
  trace: { head: TraceHead | null, spans: ShownSpan[] } | null
  failed: SeenEvent | null
  events: SeenEvent[]
  then: StateThen | null
  lines: SeenLine[]
  /** Log lines about lost runners of the request's model, logged around the time the request ended. */
  losses: SeenLine[]
  unseen: string[]
}

/** The known facts about a request. Times are in ms since 1970, or null if they were not recorded. */
export interface RequestSummary {
  taskId: string | null
  commandId: string | null
  kind: string | null
  modelId: string | null
  instanceId: string | null
  startMs: number | null
  endMs: number | null
}

export function partsOf ({ event }: SeenEvent): [kind: string, payload: Record<string, unknown>] {
  return Object.entries(event)[0] ?? ['', {}]
}

export function taskIn (state: Partial<WhyState> | undefined, id: string): SeenTask | undefined {
  return Object.values(state?.tasks ?? {}).map(({ Inference: task }) => task)
    .find((task) => task?.taskId === id || task?.commandId === id)
}

export function rootOf ({ trace }: Pick<RequestFacts, 'trace'>): ShownSpan | undefined {
  return trace?.spans.find(({ category }) => category === 'request')
}

/** Combines the facts from all sources into a summary. Pure. */
export function summarizeRequest ({ id, state, trace, failed, then, events }: RequestFacts): RequestSummary {
  const head = trace?.head ?? null
  const task = taskIn(state, id) ?? taskIn(then?.state, id)
  const told = failed === null ? {} : partsOf(failed)[1]
  const root = rootOf({ trace })
  const createdAt = head?.createdAt ?? task?.createdAt
  const startMs = root !== undefined ? root.startUs / 1000
    : createdAt === undefined ? null : Date.parse(createdAt)
  const tookUs = root?.durationUs ?? head?.durationUs
  const failedMs = failed === null ? null : Date.parse(failed.at)
  const modelId = nonEmpty(head?.modelId) ?? task?.modelId ?? null
  return {
    taskId: head?.taskId ?? task?.taskId ?? nonEmpty(told['taskId']),
    commandId: head?.commandId ?? task?.commandId ?? nonEmpty(told['commandId']),
    kind: head?.taskKind ?? task?.capability ?? nonEmpty(root?.attrs['call']), modelId,
    instanceId: task?.instanceId ?? instanceIn(events, modelId), startMs: startMs ?? failedMs,
    endMs: startMs !== null && tookUs !== undefined ? startMs + tookUs / 1000 : failedMs
  }
}

const nonEmpty = (value: unknown): string | null => typeof value === 'string' && value !== '' ? value : null

/** The model's instance, if exactly one occurs in the events; otherwise null. */
function instanceIn (events: readonly SeenEvent[], modelId: string | null): string | null {
  const own = events.map((event) => partsOf(event)[1]).filter((payload) => payload['modelId'] === modelId)
  const ids = new Set(own.flatMap(({ instanceId }) => nonEmpty(instanceId) ?? []))
  return modelId !== null && ids.size === 1 ? [...ids][0]! : null
}

/** Milliseconds before and after a request for which its events and log lines are collected. */
const AROUND_MS = 60_000
/** Milliseconds after a request ends during which a logged runner loss still counts as its cause. */
const LOSS_MS = 2000
/** Log messages that report a lost runner. */
const LOSSES: ReadonlySet<string> = new Set(['runner lost; starting it again', 'runner given up'])
/** Limit on the events and on the log lines that are read per request. */
const MOST = 1000

/**
 * Resolves to null on an error, and records it under `what` unless `what` is null or the reason is `absent`.
 */
type Look = <T>(what: string | null, path: string, absent?: string) => Promise<T | null>

/** Collects all facts about a request. Resolves to the node's error if the node refuses GET /state. */
export async function gather (
  { look: given, nowMs }: Pick<ToolContext, 'look' | 'nowMs'>, id: string
): Promise<RequestFacts | VerbError> {
  const unseen: string[] = []
  const look: Look = async <T>(what: string | null, path: string, absent?: string) => {
    const answer = await given<T>(path)
    if (!isVerbError(answer)) return answer
    const expected = what === null || (absent !== undefined && answer.api?.reason === absent)
    if (!expected) unseen.push(`${what}: ${causeOf(answer)}`)
    return null
  }
  const state = await given<WhyState>('/state')
  if (isVerbError(state)) return state
  const [tracing, spans, raw, failures] = await Promise.all([
    look<{ enabled: boolean }>('whether requests are traced', '/v1/tracing'),
    look<{ traces: ShownSpan[] }>('the traces', `/v1/traces/cluster/${id}`, 'trace_not_found'),
    look<{ otherData: TraceHead }>(null, `/v1/traces/cluster/${id}/raw`),
    look<{ events: SeenEvent[] }>('the failed tasks', `/events?kinds=TaskFailed&limit=${MOST}`)
  ])
  const facts: RequestFacts = {
    id, state, unseen, nowMs,
    tracing: tracing?.enabled ?? null,
    trace: spans === null ? null : { head: raw?.otherData ?? null, spans: spans.traces },
    failed: failures?.events.findLast((event) => {
      const [kind, { taskId, commandId }] = partsOf(event)
      return kind === 'TaskFailed' && (taskId === id || commandId === id)
    }) ?? null,
    events: [], then: null, lines: [], losses: []
  }
  return await lookAround(facts, look)
}

export function isKnown ({ trace, failed, state, id }: RequestFacts): boolean {
  return trace !== null || failed !== null || taskIn(state, id) !== undefined
}

async function lookAround (facts: RequestFacts, look: Look): Promise<RequestFacts> {
  const { startMs, endMs, taskId, commandId, modelId } = summarizeRequest(facts)
  if (startMs === null) return facts
  const momentMs = Math.min(endMs ?? facts.nowMs, facts.nowMs)
  const at = new URLSearchParams({ at: new Date(momentMs).toISOString() }).toString()
  const since = new URLSearchParams({
    since: new Date(startMs - AROUND_MS).toISOString(), limit: String(MOST)
  }).toString()
  const [events, then, logs] = await Promise.all([
    look<{ events: SeenEvent[] }>('the events', `/events?${since}`),
    look<StateThen>('the state at that moment', `/state?${at}`),
    look<{ lines: SeenLine[] }>('the logs', `/v1/logs/cluster?${since}`)
  ])
  const ids = [facts.id, taskId, commandId].filter((id) => id !== null)
  const lines = logs?.lines ?? []
  return {
    ...facts, then,
    events: (events?.events ?? []).filter(({ at }) => Date.parse(at) <= momentMs + AROUND_MS),
    losses: lines.filter(({ at, message, fields }) => LOSSES.has(message) && fields['modelId'] === modelId &&
      Date.parse(at) >= startMs && Date.parse(at) <= momentMs + LOSS_MS),
    lines: lines.filter(({ fields }) => {
      const text = JSON.stringify(fields)
      return ids.some((id) => text.includes(id))
    })
  }
}

function causeOf ({ message, status, api }: VerbError): string {
  if (status === 401 || status === 403) return 'it requires the authority "operator" (--token)'
  if (api === undefined || api.reason === 'not_found') return 'it is not available on this node'
  return plain(message.split('\n')[0]!)
}

export function unknownText ({ id, state, tracing, unseen }: RequestFacts): string {
  const instance = state.instances[id]
  if (instance !== undefined) {
    const modelId = plain(bodyOf(instance).shardAssignments.modelId)
    return `${id} is an instance of ${modelId}, not a request; see svc why ${modelId}`
  }
  return [
    `the command or task ${id} is unknown`,
    '  checked: active and recent tasks (GET /state), failed tasks (GET /events), the traces of all nodes ' +
    '(GET /v1/traces/cluster)',
    ...unseen.map((text) => `  not checked: ${text}`),
    ...tracing === false
      ? ['  requests are not traced now, so a successful one leaves no record: svc traces on']
      : [],
    '  the id is in the response header x-svc-command-id; svc traces and svc events list recent ones'
  ].join('\n')
}
