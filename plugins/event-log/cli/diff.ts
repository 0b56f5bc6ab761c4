import { systemClock } from '../../../kernel/index.js'
import { MOMENTS, plain, readMoment } from '../../../kernel/cli/index.js'
import { assignmentsOf, fieldsOf, partOf } from '../history/part.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'
import type { StateAt } from '../history/lookup.js'
import type { ClusterPart, Fields } from '../history/part.js'

/** What was read of a moment; null for now, which is not recorded. */
interface Shown {
  readonly at: string
  readonly recorded: StateAt['snapshot'] | null
  /** Session, nodes and instances are those after this event. */
  readonly idx: number | null
}

export default {
  async run (ctx, args) {
    const [from, to] = args as [string, string | undefined]
    const a = await read(ctx, from)
    const b = to === undefined || to === 'now' ? await readNow(ctx) : await read(ctx, to)
    const changes = differences(a.side, b.side)
    if (ctx.out.json) ctx.out.value({ from: a.shown, to: b.shown, changes })
    else print(ctx, a.shown, b.shown, changes)
  }
} satisfies Verb

async function read (ctx: VerbContext, text: string): Promise<{ side: Side, shown: Shown }> {
  const at = readMoment(text, systemClock.now())
  if (at === null) throw ctx.fail(2, `${text}: ${MOMENTS}`)
  const then = await ctx.client.json<StateAt>(`/state?at=${encodeURIComponent(at)}`)
  const { idx, ...part } = then.derived
  return {
    side: { part, state: then.state },
    shown: { at: String(then.at), recorded: then.snapshot, idx }
  }
}

/**
 * The node that is asked may have no link to one that is there: members are those after the newest event.
 * Whether there is a master only /state tells.
 */
async function readNow ({ client }: VerbContext): Promise<{ side: Side, shown: Shown }> {
  const state = await client.json<Record<string, unknown>>('/state')
  const { derived } = await client.json<StateAt>(`/state?at=${Number(state['lastEventAppliedIdx'])}`)
  const part = { ...partOf(state), members: derived.members }
  return { side: { part, state }, shown: { at: 'now', recorded: null, idx: null } }
}

function print ({ out, err }: VerbContext, from: Shown, to: Shown, changes: readonly Difference[]): void {
  for (const { text } of changes) out.line(text)
  if (changes.length === 0) err.line('nothing differs')
  for (const { at, recorded, idx } of [from, to]) {
    if (recorded === null) continue
    err.line(`${at}: runners and conflicts as recorded at ${recorded.at}; session, nodes and instances at ` +
      `index ${idx}`)
  }
}

/** The cluster at one moment. */
export interface Side {
  readonly part: ClusterPart
  /** As GET /state answers, now or when it was recorded. */
  readonly state: Fields
}

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
    ...sessions(from.part, to.part, names), ...nodes(from.part, to.part, names),
    ...differing('instance', from.part.instances, to.part.instances, (id, one, change) =>
      `instance ${short(id)} of ${one.modelId} ${change} (on ${names.nodes(one.nodeIds)})`),
    ...differing('runner', statusesOf(from), statusesOf(to), (id, _one, _change, old, now) =>
      `${names.runner(id)}: ${moved(old, now)}`),
    ...differing('conflict', reasonsOf(from.state), reasonsOf(to.state), (id, one, change) => {
      const text = change === 'removed' ? 'is over' : `began: ${one.message}`
      return `${one.severity} ${one.code} on ${names.node(id.slice(0, id.lastIndexOf('/')))} ${text}`
    }).filter(({ change }) => change !== 'changed')
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

/**
 * The entries that differ, by their ids. `textOf` gets the entry as it is now, or was if it is gone, and how
 * it was and is.
 */
function differing<T> (
  what: Difference['what'], before: Readonly<Record<string, T>>, after: Readonly<Record<string, T>>,
  textOf: (id: string, one: T, change: Difference['change'], old?: T, now?: T) => string
): Difference[] {
  const own = (map: Readonly<Record<string, T>>, id: string): T | undefined =>
    Object.hasOwn(map, id) ? map[id] : undefined
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].sort().flatMap((id) => {
    const [old, now] = [own(before, id), own(after, id)]
    if (JSON.stringify(old) === JSON.stringify(now)) return []
    const change = old === undefined ? 'added' : now === undefined ? 'removed' : 'changed'
    const text = textOf(id, (now ?? old)!, change, old, now)
    return [{ what, change, id, before: old ?? null, after: now ?? null, text }]
  })
}

function sessions ({ session: old }: ClusterPart, { session: now }: ClusterPart, names: Names): Difference[] {
  const one = (what: Difference['what'], before: string | null, after: string | null, text: string):
  Difference[] => before === after ? [] : [{ what, change: 'changed', id: after ?? '', before, after, text }]
  return [
    ...one('session', old.sessionId, now.sessionId,
      `another session: term ${old.term} is now ${now.term}`),
    ...one('master', old.masterNodeId, now.masterNodeId,
      `master: ${names.node(old.masterNodeId)} before, ${names.node(now.masterNodeId)} now`)
  ]
}

function nodes (from: ClusterPart, to: ClusterPart, names: Names): Difference[] {
  const there = ({ members }: ClusterPart): Record<string, true> =>
    Object.fromEntries(members.map((id) => [id, true]))
  const known = new Set(from.members.map((id) => names.install(id)))
  return differing('node', there(from), there(to), (id, _one, change) => {
    const again = known.has(names.install(id) ?? '') ? ', started anew' : ''
    return `node ${names.node(id)} ${change === 'removed' ? 'left' : `joined${again}`}`
  })
}

const statusesOf = ({ state }: Side): Record<string, string> =>
  Object.fromEntries(Object.entries(fieldsOf(state['runners'])).map(([id, one]) => [id, statusOf(one)]))

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

interface Reason { readonly code: string, readonly severity: string, readonly message: string }

/** All conflicts, by `<node id>/<code>`. */
function reasonsOf (state: Fields): Record<string, Reason> {
  return Object.fromEntries(Object.entries(fieldsOf(state['nodeHealth'])).flatMap(([node, health]) => {
    const reasons = fieldsOf(health)['reasons']
    if (!Array.isArray(reasons)) return []
    return (reasons as Reason[]).map((reason) => [`${node}/${reason.code}`, reason])
  }))
}
