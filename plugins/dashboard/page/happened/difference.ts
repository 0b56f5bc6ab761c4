import { instancesOf, nodesOf, transfersOf, type State } from '../state.js'

export interface Change {
  kind: 'appeared' | 'went' | 'changed'
  what: 'cluster' | 'node' | 'instance' | 'transfer' | 'failure' | 'waiting'
  id: string, name: string
  details: readonly { field: string, before: string, after: string }[]
}

interface Thing { what: Change['what'], id: string, name: string, fields: Record<string, string> }

/** The items that appeared, disappeared or changed, ignoring readings such as memory in use. */
export function differenceOf (before: State, after: State): Change[] {
  const [had, has] = [thingsOf(before), thingsOf(after)]
  const went = [...had].filter(([key]) => !has.has(key))
    .map(([, thing]) => ({ ...named(thing), kind: 'went' as const, details: [] }))
  const others = [...has].flatMap(([key, thing]): Change[] => {
    const old = had.get(key)
    if (old === undefined) return [{ ...named(thing), kind: 'appeared', details: [] }]
    const fields = new Set([...Object.keys(old.fields), ...Object.keys(thing.fields)])
    const details = [...fields].map((field) =>
      ({ field, before: old.fields[field] ?? 'none', after: thing.fields[field] ?? 'none' }))
      .filter((one) => one.before !== one.after)
    return details.length === 0 ? [] : [{ ...named(thing), kind: 'changed', details }]
  })
  return [...went, ...others]
}

const named = ({ what, id, name }: Thing): Pick<Thing, 'what' | 'id' | 'name'> => ({ what, id, name })

function thingsOf (state: State): Map<string, Thing> {
  const nodes = nodesOf(state)
  const nameOf = (id: string | null): string =>
    id === null ? 'none' : nodes.find((node) => node.id === id)?.name ?? id
  const names = (ids: readonly string[]): string => ids.map(nameOf).sort().join(', ')
  const things: Thing[] = [
    {
      what: 'cluster', id: '', name: 'The cluster',
      fields: {
        master: nameOf(state.masterNodeId), session: state.sessionId ?? 'none', quorum: state.cluster.quorum,
        tracing: state.tracingEnabled ? 'on' : 'off'
      }
    },
    ...nodes.map(({ id, name, live, drained, health, participation }): Thing => ({
      what: 'node', id, name,
      fields: {
        name, live: live ? 'yes' : 'no', drained: drained ? 'yes' : 'no', health: health.level, participation,
        reasons: health.reasons.map(({ code }) => code).sort().join(', ') || 'none'
      }
    })),
    ...instancesOf(state).map(({ instanceId, modelId, phase, nodeIds }): Thing => ({
      what: 'instance', id: instanceId, name: modelId, fields: { phase, nodes: names(nodeIds) }
    })),
    ...transfersOf(state).map(({ attemptId, nodeId, modelId, status }): Thing => ({
      what: 'transfer', id: `${nodeId}/${attemptId}`, name: `${modelId} to ${nameOf(nodeId)}`,
      fields: { status }
    })),
    ...state.instanceFailures.map(({ instanceId, modelId, errorCode }): Thing => ({
      what: 'failure', id: instanceId, name: modelId, fields: { reason: errorCode }
    })),
    ...Object.entries(state.waitingInstances ?? {}).map(([id, one]): Thing => ({
      what: 'waiting', id, name: one.modelId, fields: { reason: one.reason }
    }))
  ]
  return new Map(things.map((thing) => [`${thing.what} ${thing.id}`, thing]))
}
