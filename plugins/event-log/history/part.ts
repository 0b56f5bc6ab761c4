import { kindOf, type Entry } from '../log/entries.js'

export type Fields = Readonly<Record<string, unknown>>

export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null ? value as Fields : {}

/** The shard assignments of an instance, which a state wraps in an object whose only key is its type. */
export function assignmentsOf (tagged: unknown): Fields {
  return fieldsOf(fieldsOf(Object.values(fieldsOf(tagged))[0])['shardAssignments'])
}

export interface PlacedInstance { readonly modelId: string, readonly nodeIds: readonly string[] }

export interface ClusterPart {
  readonly session: {
    readonly sessionId: string, readonly term: number, readonly masterNodeId: string | null
  }
  /** Ids of the nodes in the cluster, sorted. */
  readonly members: readonly string[]
  readonly instances: Readonly<Record<string, PlacedInstance>>
}

export const PART_KINDS: readonly string[] = [
  'SessionChanged', 'MasterElected', 'NodeJoined', 'NodeTimedOut', 'NodeRemoved', 'InstanceCreated',
  'InstanceDeleted'
]

const textOf = (value: unknown): string => typeof value === 'string' ? value : ''
const textsOf = (value: unknown): string[] => Array.isArray(value) ? value.map(textOf).sort() : []

/** The cluster part of GET /state; missing or malformed keys are empty. Pure. */
export function partOf (state: Fields): ClusterPart {
  const { term } = fieldsOf(state['cluster'])
  const master = state['masterNodeId']
  return {
    session: {
      sessionId: textOf(state['sessionId']), term: typeof term === 'number' ? term : 0,
      masterNodeId: typeof master === 'string' ? master : null
    },
    members: textsOf(fieldsOf(state['topology'])['nodes']),
    instances: Object.fromEntries(Object.entries(fieldsOf(state['instances'])).map(([id, tagged]) => {
      const { modelId, nodeToRunner } = assignmentsOf(tagged)
      return [id, { modelId: textOf(modelId), nodeIds: Object.keys(fieldsOf(nodeToRunner)).sort() }]
    }))
  }
}

/** A part with later log entries applied. Applying one again is harmless if all later ones follow. */
export class Draft {
  #session: ClusterPart['session']
  #members: Set<string>
  #joined = new Set<string>()
  readonly #instances: Map<string, PlacedInstance>

  constructor ({ session, members, instances }: ClusterPart, entries: Iterable<Entry>) {
    this.#session = session
    this.#members = new Set(members)
    this.#instances = new Map(Object.entries(instances))
    for (const entry of entries) this.apply(entry)
  }

  apply (entry: Entry): void {
    const kind = kindOf(entry.event)
    const payload = entry.event[kind] ?? {}
    if (kind === 'SessionChanged' || kind === 'MasterElected') this.#elected(kind, payload, entry.sid)
    // Only the session's master decides membership and placement. An isolated node that acted as master may
    // submit its events later; they never applied to this cluster.
    else if (entry.sid === this.#session.sessionId && entry.origin === this.#session.masterNodeId) {
      this.#changed(kind, payload)
    }
  }

  #elected (kind: string, payload: Fields, sid: string): void {
    const { sessionId, term, masterNodeId, previousSessionId } = payload
    // A master logs its election in its own session; in another session, the event was submitted again later.
    if (sessionId !== sid) return
    const master = textOf(masterNodeId)
    if (sid !== this.#session.sessionId) this.#joined = new Set()
    this.#session = { sessionId: sid, term: Number(term), masterNodeId: master }
    // A master without an earlier session has just started. It emits NodeJoined for each live node, possibly
    // before this event, so those nodes are the members.
    if (kind === 'SessionChanged' && previousSessionId === null) this.#members = new Set(this.#joined)
    this.#members.add(master)
  }

  #changed (kind: string, payload: Fields): void {
    const nodeId = textOf(payload['nodeId'])
    const instanceId = textOf(payload['instanceId'])
    if (kind === 'NodeJoined') {
      this.#members.add(nodeId)
      this.#joined.add(nodeId)
    } else if (kind === 'NodeTimedOut' || kind === 'NodeRemoved') {
      this.#members.delete(nodeId)
      this.#joined.delete(nodeId)
    } else if (kind === 'InstanceDeleted') this.#instances.delete(instanceId)
    else if (kind === 'InstanceCreated') {
      this.#instances.set(instanceId,
        { modelId: textOf(payload['modelId']), nodeIds: textsOf(payload['nodeIds']) })
    }
  }

  part (): ClusterPart {
    return {
      session: this.#session, members: [...this.#members].sort(),
      instances: Object.fromEntries(this.#instances)
    }
  }
}
