// Reconstructs a past state: the last snapshot before the requested time, plus the events between the two.
import { emptyState, type InstanceBody, type State, type Tagged } from '../state.js'
import type { ControlEvent } from './events.js'

export interface PastAnswer {
  at: number | string
  snapshot: { idx: number, at: string, stale: boolean, omitted: string[] }
  state: Partial<State>
  derived: {
    idx: number, session: { sessionId: string, masterNodeId: string } | null, members: string[]
    instances: Record<string, { modelId: string, nodeIds: string[] }>
  }
  events: ControlEvent[]
  more: boolean
}

export function momentOf ({ snapshot, derived, events }: PastAnswer): { idx: number, at: string } {
  return { idx: derived.idx, at: events.at(-1)?.at ?? snapshot.at }
}

/** The state at the requested time, except that readings such as memory in use are as old as the snapshot. */
export function pastState (answer: PastAnswer): State {
  const { derived, events } = answer
  const state: State = { ...emptyState, ...answer.state }
  const runners = { ...state.runners }
  let { tracingEnabled } = state
  for (const { event } of events) {
    const status = event['RunnerStatusUpdated']
    if (status !== undefined) runners[String(status['runnerId'])] = status['status'] as never
    const tracing = event['TracingStateChanged']
    if (tracing !== undefined) tracingEnabled = tracing['enabled'] === true
  }
  return {
    ...state, runners, tracingEnabled,
    sessionId: derived.session?.sessionId ?? state.sessionId,
    masterNodeId: derived.session?.masterNodeId ?? state.masterNodeId,
    lastEventAppliedIdx: derived.idx,
    instances: Object.fromEntries(Object.entries(derived.instances)
      .map(([id, one]) => [id, state.instances[id] ?? instanceOf(id, one, events)])),
    topology: { ...state.topology, nodes: derived.members }
  }
}

const NO_CARD = { PipelineShardMetadata: { modelCard: null } } as never

/** Reconstructs an instance that was placed after the snapshot from its events. */
function instanceOf (
  instanceId: string, { modelId, nodeIds }: { modelId: string, nodeIds: string[] },
  events: readonly ControlEvent[]
): Tagged<InstanceBody> {
  const updates = events.flatMap(({ event, origin }) => {
    const update = event['RunnerStatusUpdated']
    return update?.['instanceId'] === instanceId ? [{ runnerId: String(update['runnerId']), origin }] : []
  })
  return {
    Instance: {
      instanceId, contextTokenLimit: 0, engine: '',
      shardAssignments: {
        modelId, runnerToShard: Object.fromEntries(updates.map(({ runnerId }) => [runnerId, NO_CARD])),
        nodeToRunner: {
          ...Object.fromEntries(nodeIds.map((id) => [id, ''])),
          ...Object.fromEntries(updates.map(({ runnerId, origin }) => [origin, runnerId]))
        }
      }
    }
  }
}
