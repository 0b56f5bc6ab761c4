import type { Clock, ClockOffset, EventTap } from '../../kernel/index.js'
import type { EventLogView } from '../event-log/service.js'
import type { RunnerReport } from '../runners/service.js'
import type { PeerAnswer, PeerFault } from './fan-out.js'

export type Moment =
  | { type: 'event', at: string, kind: string, payload: Record<string, unknown> }
  | { type: 'runner', at: string, runnerId: string, modelId: string, what: string }

export interface NodeMoments {
  nodeId: string
  /** ISO-8601, by the node's clock. */
  generatedAt: string
  /** In their order. */
  moments: Moment[]
}

const EVENTS_MAX = 1000

/** This node's newest control events since its start. */
export interface OwnEvents {
  list (): Moment[]
  stop (): void
}

export function rememberEvents (tap: Pick<EventTap, 'onDurable'>, clock: Clock): OwnEvents {
  const kept: Moment[] = []
  const stop = tap.onDurable(({ kind, payload }) => {
    kept.push({ type: 'event', at: new Date(clock.now()).toISOString(), kind, payload })
    if (kept.length > EVENTS_MAX) kept.shift()
  })
  return { list: () => [...kept], stop }
}

/** What happened at a node, in its order: its events and what its runners' flight recorders hold. Pure. */
export function ownMoments (events: readonly Moment[], runners: readonly RunnerReport[]): Moment[] {
  const flights = runners.flatMap(({ runnerId, modelId, flightRecorder }) => flightRecorder
    .map(({ at, what }): Moment => ({ type: 'runner', at, runnerId, modelId, what })))
  return [...events, ...flights].sort((a, b) => a.at < b.at ? -1 : a.at > b.at ? 1 : 0)
}

const isText = (value: unknown): value is string => typeof value === 'string'

/** Another node's timeline; null for invalid data. */
export function readMoments (sent: unknown): NodeMoments | null {
  if (typeof sent !== 'object' || sent === null) return null
  const { nodeId, generatedAt, moments } = sent as Partial<NodeMoments>
  if (!isText(nodeId) || !isText(generatedAt) || !Array.isArray(moments)) return null
  return moments.every(isMoment) ? { nodeId, generatedAt, moments } : null
}

function isMoment (value: unknown): value is Moment {
  if (typeof value !== 'object' || value === null) return false
  const { type, at, kind, payload, runnerId, modelId, what } = value as Record<string, unknown>
  if (!isText(at) || Number.isNaN(Date.parse(at))) return false
  if (type === 'event') return isText(kind) && typeof payload === 'object' && payload !== null
  return type === 'runner' && [runnerId, modelId, what].every(isText)
}

/** An open request, without its contents. */
export interface OpenTask {
  type: 'task'
  at: string
  taskId: string
  commandId: string
  modelId: string
  capability: string
  status: string
}

/** A line of the timeline: `at` by the clock of the node that answers, ISO-8601. */
export type TimelineEntry = { nodeId: string | null, node: string | null } & (Moment | OpenTask)

/** Lead of a node's clock over ours; corrects its times unless it is within the uncertainty. */
interface ShownClock { clockAheadMs: number | null, clockUncertaintyMs: number | null }

export interface TimelineNode extends ShownClock {
  nodeId: string
  name: string
  error: PeerFault | null
}

export interface Timeline {
  generatedAt: string
  localNodeId: string
  nodes: TimelineNode[]
  entries: TimelineEntry[]
  /** Older entries exist. */
  more: boolean
}

export interface TimelineInput {
  generatedAt: string
  answers: readonly PeerAnswer<NodeMoments>[]
  /** Entries of the event log, for events that nodes do not report (any more). */
  logged: ReturnType<EventLogView['newest']>
  tasks: readonly (OpenTask & { nodeId: string | null })[]
  /** Only from this time on, ms since 1970. */
  sinceMs: number | null
  limit: number
}

/** An uncertain offset corrects no times; ms. */
const certainAhead = (clock: ClockOffset | null): number =>
  clock !== null && Math.abs(clock.offsetMs) > clock.uncertaintyMs ? clock.offsetMs : 0

/** Another node may send any time, and an offset may move it out of the range of dates. */
const isDate = (ms: number): boolean => !Number.isNaN(new Date(ms).getTime())

/** A node's clock as shown, whole milliseconds; null when unknown. */
export const shownClock = (clock: ClockOffset | null): ShownClock => ({
  clockAheadMs: clock === null ? null : Math.round(clock.offsetMs),
  clockUncertaintyMs: clock === null ? null : Math.ceil(clock.uncertaintyMs)
})

/** A line with its time, ms since 1970, and the node where it happened. */
interface Line { ms: number, nodeId: string | null, entry: Moment | Omit<OpenTask, 'nodeId'> }

/** Events of absent nodes and of earlier starts, whose node ids differ; by unknown clocks. */
function leftBehind ({ answers, logged }: Pick<TimelineInput, 'answers' | 'logged'>): Line[] {
  const tellers = new Set(answers.flatMap(({ node, value }) => value === null ? [] : [node.nodeId]))
  return logged.filter(({ origin }) => !tellers.has(origin)).flatMap(({ at, origin, event }) =>
    Object.entries(event).map(([kind, payload]): Line => ({
      ms: Date.parse(at), nodeId: origin, entry: { type: 'event', at, kind, payload }
    })))
}

/** Merges the nodes' events, with times by the clock of the answering node as far as known. Pure. */
export function mergeTimeline (input: TimelineInput): Timeline {
  const { generatedAt, answers, tasks, sinceMs, limit } = input
  const names = new Map(answers.map(({ node }) => [node.nodeId, node.name]))
  const moments = answers.flatMap(({ node, value, clock }) => (value?.moments ?? []).map((moment): Line => ({
    ms: Date.parse(moment.at) - certainAhead(clock), nodeId: node.nodeId, entry: moment
  })))
  const open = tasks.map(({ nodeId, ...entry }): Line => ({ ms: Date.parse(entry.at), nodeId, entry }))
  const all = [...leftBehind(input), ...moments, ...open]
    .filter(({ ms }) => isDate(ms) && (sinceMs === null || ms >= sinceMs))
    // Stable: events of one node in a millisecond keep their order.
    .sort((a, b) => a.ms - b.ms)
  return {
    generatedAt,
    localNodeId: answers.find(({ node }) => node.self)?.node.nodeId ?? '',
    nodes: answers.map(({ node: { nodeId, name }, error, clock }) => ({
      nodeId, name, error, ...shownClock(clock)
    })),
    entries: all.slice(-limit).map(({ ms, nodeId, entry }) => ({
      ...entry, nodeId, at: new Date(ms).toISOString(),
      node: nodeId === null ? null : names.get(nodeId) ?? null
    })),
    more: all.length > limit
  }
}

interface Assignments { nodeToRunner?: Record<string, string> }

interface TaskState {
  tasks?: Record<string, { Inference?: Record<string, string> }>
  instances?: Record<string, Record<string, { shardAssignments?: Assignments }>>
}

const OPEN: ReadonlySet<string | undefined> = new Set(['Pending', 'Running'])

/** The tasks in a state that have not ended, each with the node whose runner has it. Pure. */
export function openTasks (state: Record<string, unknown>): (OpenTask & { nodeId: string | null })[] {
  const { tasks = {}, instances = {} } = state as TaskState
  return Object.values(tasks).flatMap(({ Inference: task }) => {
    if (task === undefined || !OPEN.has(task['status'])) return []
    const text = (key: string): string => task[key] ?? ''
    const [instance] = Object.values(instances[text('instanceId')] ?? {})
    const nodes = instance?.shardAssignments?.nodeToRunner ?? {}
    return [{
      type: 'task' as const, at: text('createdAt'), taskId: text('taskId'), commandId: text('commandId'),
      modelId: text('modelId'), capability: text('capability'), status: text('status'),
      nodeId: Object.keys(nodes)[0] ?? null
    }]
  })
}
