import type { SeenState } from './api.js'

/** A task as GET /state shows it. */
export interface SeenTask {
  taskId: string
  commandId: string
  instanceId: string
  modelId: string
  capability: string
  status: string
  createdAt: string
}

/** An event of GET /events. */
export interface SeenEvent {
  idx: number
  at: string
  origin: string
  event: Record<string, Record<string, unknown>>
}

/** A span of GET /v1/traces/cluster/{id}. */
export interface SeenSpan {
  name: string
  startUs: number
  durationUs: number
  category: string
  nodeId: string
  attrs: Record<string, unknown>
}

/** What a trace says of its request as a whole. */
export interface TraceHead {
  taskId: string
  commandId: string
  createdAt: string
  modelId: string
  taskKind: string
  durationUs: number
  outcome: string
  reason: string | null
  places: { nodeId: string, name: string, process: string }[]
}

/** A line of GET /v1/logs/cluster. */
export interface SeenLine {
  nodeId: string
  node: string
  at: string
  level: string
  message: string
  fields: Record<string, unknown>
}

/** The parts of GET /state that tell about requests. */
export interface WhyState extends SeenState {
  masterNodeId?: string | null
  tasks?: Record<string, { Inference?: SeenTask }>
  nodeHealth?: Record<string, { level: string, reasons: { code: string, message: string }[] }>
  cluster?: { knownNodes: number, liveNodes: number, quorum: string }
}

/** GET /state?at=. */
export interface StateThen { at: string | number, snapshot: { at: string }, state: Partial<WhyState> }

/** Everything that was found about a request. */
export interface Facts {
  id: string
  /** Now, ms since 1970. */
  nowMs: number
  state: WhyState
  tracing: boolean | null
  trace: { head: TraceHead | null, spans: SeenSpan[] } | null
  /** The event that says it failed. */
  failed: SeenEvent | null
  /** Events around it, oldest first. */
  events: SeenEvent[]
  then: StateThen | null
  lines: SeenLine[]
  /** What could not be looked at, and why, in words. */
  unseen: string[]
}

/** What the request was. Times are ms since 1970; null where nobody noted it. */
export interface About {
  taskId: string | null
  commandId: string | null
  kind: string | null
  modelId: string | null
  instanceId: string | null
  startMs: number | null
  endMs: number | null
}

/** The name of an event and what it carries. */
export function partsOf ({ event }: SeenEvent): [kind: string, payload: Record<string, unknown>] {
  return Object.entries(event)[0] ?? ['', {}]
}

/** The task of that id, or of the command of that id. */
export function taskIn (state: Partial<WhyState> | undefined, id: string): SeenTask | null {
  const all = Object.values(state?.tasks ?? {}).map(({ Inference: task }) => task)
  return all.find((task) => task !== undefined && (task.taskId === id || task.commandId === id)) ?? null
}

/** True for the event that says of this task or command that it failed. */
export function tellsFailure (event: SeenEvent, id: string): boolean {
  const [kind, { taskId, commandId }] = partsOf(event)
  return kind === 'TaskFailed' && (taskId === id || commandId === id)
}

/** What is known of the request itself, from whichever source has it. Pure. */
export function aboutOf ({ id, state, trace, failed, then }: Facts): About {
  const head = trace?.head ?? null
  const task = taskIn(state, id) ?? taskIn(then?.state, id)
  const [, told] = failed === null ? ['', {}] : partsOf(failed)
  const root = trace?.spans.find(({ category }) => category === 'request')
  const failedMs = failed === null ? null : Date.parse(failed.at)
  const startMs = root !== undefined ? root.startUs / 1000
    : head !== null ? Date.parse(head.createdAt) : task !== null ? Date.parse(task.createdAt) : null
  const tookUs = root?.durationUs ?? head?.durationUs
  return {
    taskId: head?.taskId ?? task?.taskId ?? textOf(told['taskId']),
    commandId: head?.commandId ?? task?.commandId ?? textOf(told['commandId']),
    kind: head?.taskKind ?? task?.capability ?? textOf(root?.attrs['call']),
    modelId: filled(head?.modelId) ?? task?.modelId ?? null,
    instanceId: task?.instanceId ?? null,
    startMs: startMs ?? failedMs,
    endMs: startMs !== null && tookUs !== undefined ? startMs + tookUs / 1000 : failedMs
  }
}

const textOf = (value: unknown): string | null => typeof value === 'string' ? value : null
const filled = (text: string | undefined): string | null => text === undefined || text === '' ? null : text
