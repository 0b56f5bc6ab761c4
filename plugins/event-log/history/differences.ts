import { plain } from '../../../kernel/cli/index.js'
import { assignmentsOf, fieldsOf } from './part.js'
import type { ClusterPart, Fields } from './part.js'

/** The cluster at one moment. */
export interface Side {
  readonly part: ClusterPart
  /** As GET /state answers, now or when it was recorded. */
  readonly state: Fields
}

/** One difference. */
export interface Difference {
  readonly what: 'session' | 'master' | 'node' | 'instance' | 'runner' | 'conflict'
  readonly change: 'added' | 'removed' | 'changed'
  /** Id of the node, instance or runner; of a conflict `<node id>/<code>`; of the others the new value. */
  readonly id: string
  readonly before: unknown
  readonly after: unknown
  /** The difference as a sentence. */
  readonly text: string
}

/** What differs between two moments, the older first. Pure. */
export function differences (from: Side, to: Side): Difference[] {
  const names = new Names(from, to)
  return [
    ...sessions(from.part, to.part, names),
    ...nodes(from.part, to.part, names),
    ...instances(from.part, to.part, names),
    ...runners(from, to, names),
    ...conflicts(from.state, to.state, names)
  ].map((one) => ({ ...one, text: plain(one.text) }))
}

/** Names for the ids of nodes and runners. */
class Names {
  readonly #from: Side
  readonly #to: Side
  constructor (from: Side, to: Side) {
    this.#from = from
    this.#to = to
  }

  #identity (id: string): Fields {
    const identities = [this.#to, this.#from].map(({ state }) => fieldsOf(state['nodeIdentities'])[id])
    return fieldsOf(identities.find((one) => one !== undefined))
  }

  /** `name (id)`; the id alone when the name is not known. */
  node (id: string | null): string {
    if (id === null) return 'none'
    const name = this.#identity(id)['friendlyName']
    return typeof name === 'string' ? `${name} (${short(id)})` : short(id)
  }

  /** The install id, which stays when a node restarts; null when it is not known. */
  install (id: string): string | null {
    const install = this.#identity(id)['nodeInstallId']
    return typeof install === 'string' ? install : null
  }

  nodes (ids: readonly string[]): string { return ids.map((id) => this.node(id)).join(', ') || 'no node' }

  /** The runner with its model and node. */
  runner (id: string): string {
    for (const { state } of [this.#to, this.#from]) {
      for (const tagged of Object.values(fieldsOf(state['instances']))) {
        const { modelId, nodeToRunner } = assignmentsOf(tagged)
        const [node] = Object.entries(fieldsOf(nodeToRunner)).find(([, runner]) => runner === id) ?? []
        if (node !== undefined) return `runner ${short(id)} of ${String(modelId)} on ${this.node(node)}`
      }
    }
    return `runner ${short(id)}`
  }
}

const short = (id: string): string => id.slice(0, 8)

/** All ids of both sides, sorted, each with its value on either side. */
function paired<T> (before: Readonly<Record<string, T>>, after: Readonly<Record<string, T>>): {
  id: string, old: T | undefined, now: T | undefined
}[] {
  const own = (map: Readonly<Record<string, T>>, id: string): T | undefined =>
    Object.hasOwn(map, id) ? map[id] : undefined
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()
    .map((id) => ({ id, old: own(before, id), now: own(after, id) }))
}

const changeOf = (old: unknown, now: unknown): Difference['change'] =>
  old === undefined ? 'added' : now === undefined ? 'removed' : 'changed'

function sessions (from: ClusterPart, to: ClusterPart, names: Names): Difference[] {
  const { session: old } = from
  const { session: now } = to
  const found: Difference[] = []
  if (old.sessionId !== now.sessionId) {
    found.push({
      what: 'session', change: 'changed', id: now.sessionId, before: old.sessionId, after: now.sessionId,
      text: `another session: term ${old.term} is now ${now.term}`
    })
  }
  if (old.masterNodeId !== now.masterNodeId) {
    found.push({
      what: 'master', change: 'changed', id: now.masterNodeId ?? '',
      before: old.masterNodeId, after: now.masterNodeId,
      text: `master: ${names.node(old.masterNodeId)} before, ${names.node(now.masterNodeId)} now`
    })
  }
  return found
}

function nodes (from: ClusterPart, to: ClusterPart, names: Names): Difference[] {
  const there = (part: ClusterPart): Record<string, true> =>
    Object.fromEntries(part.members.map((id) => [id, true]))
  const known = new Set(from.members.map((id) => names.install(id)))
  return paired(there(from), there(to)).filter(({ old, now }) => old !== now).map(({ id, old, now }) => {
    const again = known.has(names.install(id) ?? '') ? ', started anew' : ''
    return {
      what: 'node', change: changeOf(old, now), id, before: old ?? null, after: now ?? null,
      text: `node ${names.node(id)} ${now === undefined ? 'left' : `joined${again}`}`
    }
  })
}

function instances (from: ClusterPart, to: ClusterPart, names: Names): Difference[] {
  return paired(from.instances, to.instances).flatMap(({ id, old, now }): Difference[] => {
    if (JSON.stringify(old) === JSON.stringify(now)) return []
    const change = changeOf(old, now)
    const { modelId, nodeIds } = (now ?? old)!
    return [{
      what: 'instance', change, id, before: old ?? null, after: now ?? null,
      text: `instance ${short(id)} of ${modelId} ${change} (on ${names.nodes(nodeIds)})`
    }]
  })
}

function runners (from: Side, to: Side, names: Names): Difference[] {
  const of = ({ state }: Side): Record<string, string> =>
    Object.fromEntries(Object.entries(fieldsOf(state['runners'])).map(([id, one]) => [id, statusOf(one)]))
  return paired(of(from), of(to)).filter(({ old, now }) => old !== now).map(({ id, old, now }) => ({
    what: 'runner', change: changeOf(old, now), id, before: old ?? null, after: now ?? null,
    text: `${names.runner(id)}: ${moved(old, now)}`
  }))
}

function moved (old: string | undefined, now: string | undefined): string {
  if (old === undefined) return `added: ${now}`
  return now === undefined ? `gone, was ${old}` : `${old} before, ${now} now`
}

/** The runner's state, with the reason when it failed. */
function statusOf (status: unknown): string {
  const [kind, more] = Object.entries(fieldsOf(status))[0] ?? ['unknown', {}]
  const { errorMessage } = fieldsOf(more)
  return typeof errorMessage === 'string' ? `${kind} (${errorMessage})` : kind
}

function conflicts (from: Fields, to: Fields, names: Names): Difference[] {
  return paired(reasonsOf(from), reasonsOf(to)).flatMap(({ id, old, now }): Difference[] => {
    if ((old === undefined) === (now === undefined)) return []
    const { code, severity, message } = (now ?? old)!
    const text = now === undefined ? 'is over' : `began: ${message}`
    const cut = id.lastIndexOf('/')
    return [{
      what: 'conflict', change: changeOf(old, now), id, before: old ?? null, after: now ?? null,
      text: `${severity} ${code} on ${names.node(id.slice(0, cut))} ${text}`
    }]
  })
}

interface Reason { readonly code: string, readonly severity: string, readonly message: string }

/** All conflicts, by `<node id>/<code>`. */
function reasonsOf (state: Fields): Record<string, Reason> {
  return Object.fromEntries(Object.entries(fieldsOf(state['nodeHealth'])).flatMap(([node, health]) => {
    const reasons = fieldsOf(health)['reasons']
    if (!Array.isArray(reasons)) return []
    return (reasons as Reason[]).map((reason) => [`${node}/${reason.code}`, reason])
  }))
}
