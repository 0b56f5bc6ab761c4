import type { Clock, EventTap } from '../../kernel/index.js'
import type { RunnerReport } from '../runners/service.js'

/** Something that happened at a node; `at` is ISO-8601 by that node's clock. */
export type Moment =
  | { type: 'event', at: string, kind: string, payload: Record<string, unknown> }
  | { type: 'runner', at: string, runnerId: string, modelId: string, what: string }

/** The answer of GET /v1/diagnostics/node/timeline. */
export interface NodeMoments {
  nodeId: string
  /** ISO-8601, by the node's clock. */
  generatedAt: string
  /** In their order. */
  moments: Moment[]
}

/** Events of this node that are remembered. */
const EVENTS_MAX = 1000

/** The control events that this node itself told since its start, the newest of them. */
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

/** What another node says happened there; null when it is nothing of the kind. */
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
