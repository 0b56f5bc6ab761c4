import {
  fact, MOMENTS, quoted, parseTimeOrIndex, createToolReads, showTime, type ClusterState, type Fact,
  type ToolReads, type Tool
} from '../../../kernel/cli/index.js'
import type { EventsPage } from '../reading/page.js'
import { DECIDED, NOTABLE, nodesIn, rankOf, describeEvent, type NameOf,
  type Payload } from './descriptions.js'

const LAST_MS = 3_600_000
/** Maximum events per page, and maximum number of pages. */
const PAGE = 1000
const PAGES_MOST = 5
/** Maximum clock difference in ms between nodes, by which times in the log may be out of order. */
const SKEW_MS = 60_000
/** More events of one kind about the same subject than this are shown as one fact. */
const ALIKE_MOST = 3
const FACTS_MOST = 40
/** Maximum number of recorded states to search for names of nodes that have since restarted. */
const EARLIER_MOST = 6

interface Happened { idx: number, at: string, ms: number, kind: string, payload: Payload, nodes: string[] }

/** The requested times in ms, or the index to start after. */
interface Range { since: string, fromMs: number, toMs: number }

export default {
  async run (ctx, { from, to, about, notable }) {
    const look = createToolReads(ctx)
    const range = rangeOf(ctx.nowMs, from, to)
    if (typeof range === 'string') return { facts: [], unknown: [range] }
    const read = await eventsIn(look, range, notable)
    if (read === null) return { facts: [], unknown: look.unknown }
    const { events: all } = read
    const used = all.flatMap(({ nodes, at }) => nodes.map((nodeId) => ({ nodeId, at })))
    const nameOf = await namesOf(look, used)
    const wanted = all.filter((one) => (about === undefined || isAbout(one, about, nameOf)) &&
      (notable !== true || NOTABLE.includes(one.kind) && rankOf(one.kind, one.payload) <= DECIDED))
    const facts = [...repeated(wanted, nameOf, ctx.nowMs), ...factsOf(wanted, nameOf, ctx.nowMs)]
    const none = notable === true ? [] : [nothing(range, about, ctx.nowMs)]
    return { facts: [...counting(read.mode), ...facts.length > 0 ? facts : none], unknown: look.unknown }
  }
} satisfies Tool<{ from?: string, to?: string, about?: string, notable?: boolean }>

/** The requested range, or a sentence about an invalid time. */
function rangeOf (nowMs: number, from?: string, to?: string): Range | string {
  const [first, last] =
    [from, to].map((text) => text === undefined ? undefined : parseTimeOrIndex(text, nowMs))
  const bad = first === null ? from : last === null ? to : undefined
  if (bad !== undefined) return `"${quoted(bad, 60)}" is not a valid time: ${MOMENTS}.`
  const byIndex = first !== undefined && /^\d+$/.test(first!)
  const toMs = last == null || /^\d+$/.test(last) ? nowMs + SKEW_MS : Date.parse(last)
  const fromMs = byIndex ? 0 : first == null ? Math.min(toMs, nowMs) - LAST_MS : Date.parse(first)
  return { since: byIndex ? first! : new Date(fromMs).toISOString(), fromMs, toMs }
}

type Identities = ClusterState['nodeIdentities']

/** Resolves node ids to names, old ones by a state recorded while they were in use; shortens others. */
async function namesOf (look: ToolReads, used: readonly { nodeId: string, at: string }[]): Promise<NameOf> {
  const now = await look.read<ClusterState>('The names of the nodes', '/state')
  const known: Record<string, Identities[string]> = { ...now?.nodeIdentities }
  for (let looks = 0; looks < EARLIER_MOST; looks++) {
    const gone = used.findLast(({ nodeId }) => !Object.hasOwn(known, nodeId))
    if (gone === undefined) break
    const then = await look.read<{ state: { nodeIdentities?: Identities } }>(
      'The names that nodes had', `/state?at=${encodeURIComponent(gone.at)}`, 'not_recorded')
    for (const [id, one] of Object.entries(then?.state.nodeIdentities ?? {})) known[id] ??= one
    known[gone.nodeId] ??= { friendlyName: null, svcVersion: '', apiUrl: null }
  }
  return (nodeId) => quoted(known[nodeId]?.friendlyName ?? `node ${nodeId.slice(0, 8)}`, 80)
}

interface Read { events: Happened[], mode: EventsPage['mode'] }

/** The events in the range, oldest first; null if they cannot be read. */
async function eventsIn (
  { read, unknown }: ToolReads, range: Range, notable = false
): Promise<Read | null> {
  const found: Happened[] = []
  const kinds = notable ? { kinds: NOTABLE.join(',') } : {}
  let { since } = range
  let mode: Read['mode'] = 'normal'
  for (let pages = 0; pages < PAGES_MOST; pages++) {
    const query = new URLSearchParams({ since, limit: String(PAGE), ...kinds })
    const page = await read<EventsPage>('The events', `/events?${query.toString()}`)
    if (page === null) return pages === 0 ? null : { events: found, mode }
    mode = page.mode
    unknown.push(...missingIn(page, pages === 0 ? range : null))
    const last = page.events.at(-1)
    found.push(...page.events.map(toHappened).filter(({ ms }) => ms >= range.fromMs && ms <= range.toMs))
    const over = last === undefined || page.events.length < PAGE || Date.parse(last.at) > range.toMs + SKEW_MS
    if (over) return { events: found, mode }
    since = String(last.idx)
  }
  unknown.push(`That period has more than ${PAGE * PAGES_MOST} events; the later ones were not read.`)
  return { events: found, mode }
}

function counting (mode: Read['mode']): Fact[] {
  return mode !== 'counting-only' ? [] : [fact('fail', 'event_log_counting',
    'This node counts events but does not store them: the disk is full.', {
      evidence: [{ kind: 'path', path: '/events?limit=1' }],
      remedy: 'Free disk space on the volume of the home: `svc purge`; writing resumes at 2.5 GiB free.'
    })]
}

function missingIn (
  { mode, degraded, gaps = [], events, firstIdx }: EventsPage, range: Range | null
): string[] {
  const [first] = events
  const begins = range !== null && first !== undefined && first.idx === firstIdx && firstIdx > 1 &&
    Date.parse(first.at) > range.fromMs
  return [
    ...begins ? [`Events before ${first.at} are not stored on this node.`] : [],
    ...gaps.length > 0 ? [`${gaps.length} ranges of the event log are missing on this node.`] : [],
    ...mode === 'counting-only' ? ['Newer events are counted but not stored.'] : [],
    ...degraded === true && mode !== 'counting-only'
      ? ['The older events cannot be read from the disk of this node.']
      : []
  ]
}

function toHappened ({ idx, at, event }: EventsPage['events'][number]): Happened {
  const [kind = '', fields = {}] = Object.entries(event)[0] ?? []
  const payload = fields as Payload
  // An event about a request has no modelId, but the node's error message contains it.
  const modelId = payload['modelId'] ??
    /^The task of (\S{3,193}) failed with /.exec(String(payload['errorMessage']))?.[1]
  const withModel = modelId === undefined ? payload : { ...payload, modelId }
  return { idx, at, ms: Date.parse(at), kind, payload: withModel, nodes: nodesIn(payload) }
}

/** Whether an event is about a node, model or id: matches names, ids, and the last part of a model id. */
function isAbout ({ kind, payload, nodes }: Happened, about: string, nameOf: NameOf): boolean {
  const wanted = about.toLowerCase()
  const words = [kind, ...nodes.map(nameOf), ...Object.values(payload).flat()]
    .filter((value) => typeof value === 'string').map((value) => value.toLowerCase())
  return words.some((word) => word === wanted || word.endsWith(`/${wanted}`))
}

/** The events as facts, most important first, then newest first; similar events may share a fact. */
function factsOf (events: readonly Happened[], nameOf: NameOf, nowMs: number): Fact[] {
  const sessions = new Set(events.filter(({ kind }) => kind === 'SessionChanged')
    .map(({ payload }) => payload['sessionId']))
  const groups = new Map<string, Happened[]>()
  for (const one of events) {
    const { kind, payload } = one
    // Skip it, because the session's SessionChanged event already names the master.
    if (kind === 'MasterElected' && sessions.has(payload['sessionId'])) continue
    const subject = payload['modelId'] ?? payload['nodeId'] ?? payload['masterNodeId'] ?? ''
    const key = `${rankOf(kind, payload)} ${kind} ${String(subject)}`
    groups.set(key, [...groups.get(key) ?? [], one])
  }
  return [...groups.values()]
    .flatMap((group) => group.length > ALIKE_MOST ? [group] : group.map((one) => [one]))
    .map((group) => ({ group, last: group.at(-1)! }))
    .sort((a, b) => rankOf(a.last.kind, a.last.payload) - rankOf(b.last.kind, b.last.payload) ||
      b.last.idx - a.last.idx)
    .slice(0, FACTS_MOST).map(({ group }) => factOf(group, nameOf, nowMs))
}

function factOf (group: readonly Happened[], nameOf: NameOf, nowMs: number): Fact {
  const [first, last] = [group[0]!, group.at(-1)!]
  const { kind, payload, idx, at } = last
  const words = describeEvent(kind, payload, nameOf)
  const many = group.length === 1 ? '' : ` (${kind} ${group.length} times since ${showTime(first.ms, nowMs)})`
  const ids = ['modelId', 'instanceId', 'taskId', 'commandId', 'plugin'].map((key) => payload[key])
    .filter((value) => typeof value === 'string').map((value) => quoted(value))
  return fact('info', snake(kind), `At ${showTime(last.ms, nowMs)} ${words}${many}.`, {
    about: [...new Set([...last.nodes.map(nameOf), ...ids])],
    evidence: [{ kind: 'event', idx, at, name: quoted(kind, 80) }],
    remedy: kind === 'NodeRemoved' ? REJOIN : null
  })
}

const REJOIN = 'To add it again: `svc join-token` on a member, and `SVC_JOIN=TOKEN svc up` on it with a ' +
  'new home.'

/** What counts as repetition: three elections in ten minutes or two in one, and three losses of one node. */
const ELECTIONS: readonly (readonly [many: number, withinMs: number])[] = [[3, 600_000], [2, 60_000]]
const LOSSES_MANY = 3

/** What happened so often that the repetition itself is a fault: elections, and losses of one node. */
function repeated (events: readonly Happened[], nameOf: NameOf, nowMs: number): Fact[] {
  const nameIn = ({ payload }: Happened): string =>
    nameOf(String(payload['masterNodeId'] ?? payload['nodeId']))
  const told = (code: string, group: readonly Happened[], words: string, remedy: string): Fact => {
    const { idx, at, kind, ms } = group.at(-1)!
    const names = group.map(nameIn)
    return fact('warn', code, `${words} ${group.length} times between ${showTime(group[0]!.ms, nowMs)} and ` +
      `${showTime(ms, nowMs)}${code === 'master_unstable' ? ` (${names.join(', then ')})` : ''}.`, {
      about: [...new Set(names)], evidence: [{ kind: 'event', idx, at, name: kind }],
      remedy: `${remedy}: \`svc doctor\`, then \`svc logs --level warn\`.`
    })
  }
  // The session of term 1 replaces no master.
  const elections = events.filter(({ kind, payload }) => kind === 'SessionChanged' &&
    Number(payload['term']) > 1)
  const close = elections.filter(({ ms }) => ELECTIONS.some(([many, withinMs]) =>
    elections.filter((one) => Math.abs(one.ms - ms) < withinMs).length >= many))
  const lost = events.filter(({ kind }) => kind === 'NodeTimedOut')
  const losses = [...new Set(lost.map(nameIn))].map((name) => lost.filter((one) => nameIn(one) === name))
  return [
    ...close.length === 0 ? [] : [told('master_unstable', close,
      'A new master was elected, which ends open requests,', 'Check the links and the load of these nodes')],
    ...losses.filter(({ length }) => length >= LOSSES_MANY).map((group) => told('node_unstable', group,
      `${nameIn(group[0]!)} was lost`, 'Check its network, power and load'))
  ]
}

const snake = (kind: string): string =>
  kind.replace(/(?<!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase().slice(0, 60)

function nothing ({ fromMs, toMs, since }: Range, about: string | undefined, nowMs: number): Fact {
  const of = about === undefined ? '' : ` about ${quoted(about, 80)}`
  const from = fromMs === 0 ? `index ${since}` : showTime(fromMs, nowMs)
  const to = toMs > nowMs ? 'now' : showTime(toMs, nowMs)
  return fact('info', 'nothing_happened', `The event log has no events${of} from ${from} to ${to}.`,
    { evidence: [{ kind: 'path', path: `/events?since=${encodeURIComponent(since)}` }] })
}
