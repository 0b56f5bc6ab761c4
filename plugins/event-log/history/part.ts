import { kindOf } from '../entries.js'
import type { Entry } from '../entries.js'

/** A JSON object whose fields are not known. */
export type Fields = Readonly<Record<string, unknown>>

/** The same value where it is an object, else an empty one. */
export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null ? value as Fields : {}

/** What an instance, as a state has it under its tag, says of where it is. */
export function assignmentsOf (tagged: unknown): Fields {
  return fieldsOf(fieldsOf(Object.values(fieldsOf(tagged))[0])['shardAssignments'])
}

/** A placed instance as far as events tell of it. */
export interface PlacedInstance { readonly modelId: string, readonly nodeIds: readonly string[] }

/** What of the cluster's state the control events tell whole: session, membership and instances. */
export interface ClusterPart {
  readonly session: {
    readonly sessionId: string, readonly term: number, readonly masterNodeId: string | null
  }
  /** Node ids of those who are there, sorted. */
  readonly members: readonly string[]
  readonly instances: Readonly<Record<string, PlacedInstance>>
}

/** The kinds of events that change that part. */
export const PART_KINDS: readonly string[] = [
  'SessionChanged', 'MasterElected', 'NodeJoined', 'NodeTimedOut', 'NodeRemoved', 'InstanceCreated',
  'InstanceDeleted'
]

const textOf = (value: unknown): string => typeof value === 'string' ? value : ''
const textsOf = (value: unknown): string[] => Array.isArray(value) ? value.map(textOf).sort() : []

/** The same part out of a state as GET /state answers it. What is missing or odd there is empty. Pure. */
export function partOf (state: Fields): ClusterPart {
  const { term } = fieldsOf(state['cluster'])
  const master = state['masterNodeId']
  return {
    session: {
      sessionId: textOf(state['sessionId']),
      term: typeof term === 'number' ? term : 0,
      masterNodeId: typeof master === 'string' ? master : null
    },
    members: textsOf(fieldsOf(state['topology'])['nodes']),
    instances: Object.fromEntries(Object.entries(fieldsOf(state['instances'])).map(([id, tagged]) => {
      const { modelId, nodeToRunner } = assignmentsOf(tagged)
      return [id, { modelId: textOf(modelId), nodeIds: Object.keys(fieldsOf(nodeToRunner)).sort() }]
    }))
  }
}

/**
 * The part after these entries of the log, which follow it in order. Entries that are in it already change
 * nothing, as long as all that came after them follow too. Pure.
 */
export function advance (part: ClusterPart, entries: Iterable<Entry>): ClusterPart {
  const next = new Draft(part)
  for (const entry of entries) next.apply(entry)
  return next.part()
}

class Draft {
  #session: ClusterPart['session']
  #members: Set<string>
  /** Who joined since the newest election. */
  #joined = new Set<string>()
  readonly #instances: Map<string, PlacedInstance>

  constructor ({ session, members, instances }: ClusterPart) {
    this.#session = session
    this.#members = new Set(members)
    this.#instances = new Map(Object.entries(instances))
  }

  apply (entry: Entry): void {
    const kind = kindOf(entry.event)
    const payload = entry.event[kind] ?? {}
    if (kind === 'SessionChanged' || kind === 'MasterElected') this.#elected(kind, payload, entry.sid)
    // Only the master says who is there and what is placed. What another one said, which had lost touch and
    // submitted it again afterwards, was never so for the cluster that goes on.
    else if (entry.sid === this.#session.sessionId && entry.origin === this.#session.masterNodeId) {
      this.#told(kind, payload)
    }
  }

  #elected (kind: string, payload: Fields, sid: string): void {
    const { sessionId, term, masterNodeId, previousSessionId } = payload
    // A master gives its own election its index, in its own session; any other was submitted again later.
    if (sessionId !== sid) return
    const master = textOf(masterNodeId)
    if (sid !== this.#session.sessionId) this.#joined = new Set()
    this.#session = { sessionId: sid, term: Number(term), masterNodeId: master }
    // A master that knew no session before has just started: it tells anew of everybody who is there, which
    // it may have begun with before this event.
    if (kind === 'SessionChanged' && previousSessionId === null) this.#members = new Set(this.#joined)
    this.#members.add(master)
  }

  #told (kind: string, payload: Fields): void {
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
      session: this.#session,
      members: [...this.#members].sort(),
      instances: Object.fromEntries(this.#instances)
    }
  }
}
