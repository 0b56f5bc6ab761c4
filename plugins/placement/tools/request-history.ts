import { plain } from '../../../kernel/cli/index.js'
import { modelOf, nodesOf, ranksOf } from '../place/instance.js'
import { serves } from '../progress/progress.js'
import { nameOf } from '../cli/state.js'
import { summarizeRequest, partsOf, rootOf, taskIn } from './request-facts.js'
import type { ShownSpan } from '../../tracing/service.js'
import type { RequestSummary, RequestFacts, StateThen } from './request-facts.js'
import { eventText, partWords } from './request-words.js'

/** The total time that one kind of step took on one node. */
export interface Part {
  words: string
  name: string
  category: string
  node: string
  startMs: number
  tookMs: number
}

/** How a request ended; `open` if it has not ended. `reason` is the reason in its error, if any. */
export interface Ended {
  how: 'completed' | 'failed' | 'cancelled' | 'open' | 'unknown'
  reason: string | null
  message: string
}

/** The history of a request. Times are ISO 8601. */
export interface RequestHistory {
  id: string
  asked: Pick<RequestSummary,
  'taskId' | 'commandId' | 'kind' | 'modelId' | 'instanceId'> & { at: string | null }
  /** Names of the node that accepted the request (`entered`) and of the nodes that ran it (`ran`). */
  entered: string | null
  ran: string[]
  tookMs: number | null
  /** Time spent in each step, in order of the first start; empty without a trace. */
  parts: Part[]
  ended: Ended
  around: { idx: number, at: string, name: string, text: string }[]
  logs: { at: string, node: string, text: string }[]
  /** The loss of a runner of the request's model, if one was logged around the time the request ended. */
  lost: { at: string, node: string, text: string } | null
  then: string[]
  open: boolean
  unseen: string[]
  next: string[]
}

/** Milliseconds before and after a request for which its history includes events. */
const BEFORE_MS = 5000
const AFTER_MS = 10_000
const AROUND_MOST = 12
const LOGS_MOST = 10

/** Combines the facts into a history. `remedyOf` returns the remedy for an error reason. Pure. */
export function storyOf (facts: RequestFacts, remedyOf: (reason: string) => string | null): RequestHistory {
  const about = summarizeRequest(facts)
  const { startMs, endMs, ...asked } = about
  const name = (nodeId: string): string => nodeName(facts, nodeId)
  const entered = rootOf(facts)?.nodeId ?? facts.failed?.origin
  const lost = lossOf(facts)
  const end = endOf(facts)
  const ended = lost !== null && end.reason === 'instance_lost' ? { ...end, message: lost.text } : end
  const open = ended.how === 'open'
  const over = open ? facts.nowMs : endMs
  const story = {
    id: facts.id,
    asked: { ...asked, at: startMs === null ? null : new Date(startMs).toISOString() },
    entered: entered === undefined ? null : name(entered),
    ran: ranOn(facts, about).map(name),
    tookMs: startMs === null || over === null || over <= startMs ? null : over - startMs,
    parts: partsOfSpans(facts.trace?.spans ?? [], name),
    ended,
    around: around(facts, about, name),
    logs: facts.lines.slice(-LOGS_MOST)
      .map(({ at, node, message }) => ({ at, node: plain(node), text: plain(message) })),
    lost,
    then: facts.then === null ? [] : thenWords(facts.then, about, name),
    open,
    unseen: facts.unseen
  }
  return { ...story, next: nextSteps(story, facts, remedyOf) }
}

function nodeName ({ state, trace }: RequestFacts, nodeId: string): string {
  const place = trace?.head?.places.find((one) => one.nodeId === nodeId)
  // Use the recorded name if the node id is unknown, because node ids change at each start.
  const gone = state.nodeIdentities[nodeId] === undefined
  return gone && place !== undefined ? plain(place.name) : nameOf(state, nodeId)
}

/** Nodes whose runners worked on the request; if these are unknown, the nodes of its instance. */
function ranOn ({ trace, state, then }: RequestFacts, { instanceId }: RequestSummary): string[] {
  const runners = (trace?.head?.places ?? []).filter((place) => place.process === 'runner')
  if (runners.length > 0) return [...new Set(runners.map(({ nodeId }) => nodeId))]
  if (instanceId === null) return []
  const instance = state.instances[instanceId] ?? then?.state.instances?.[instanceId]
  return instance === undefined ? [] : nodesOf(instance)
}

function endOf (facts: RequestFacts): Ended {
  const { id, state, trace, failed, then } = facts
  const status = taskIn(state, id)?.status
  if (status === 'Pending' || status === 'Running') {
    const message = status === 'Pending' ? 'it waits in the queue' : 'it is running'
    return { how: 'open', reason: null, message }
  }
  if (failed !== null) {
    const { errorType = null, errorMessage = '' } = partsOf(failed)[1] as Record<string, string | undefined>
    return { how: 'failed', reason: errorType, message: plain(errorMessage) }
  }
  const root = rootOf(facts)
  const outcome = trace?.head?.outcome ?? root?.attrs['outcome'] ?? OUTCOMES[status ?? '']
  const reason = trace?.head?.reason ?? root?.attrs['reason']
  const how = outcome === 'completed' || outcome === 'failed' || outcome === 'cancelled' ? outcome : 'unknown'
  const message = how === 'unknown' && then === null ? 'its outcome was not recorded' : ''
  return { how, reason: typeof reason === 'string' ? reason : null, message }
}

function lossOf ({ losses }: RequestFacts): RequestHistory['lost'] {
  const last = losses.at(-1)
  if (last === undefined) return null
  const { at, node, message, fields } = last
  const why = fields['reason']
  return { at, node: plain(node), text: plain(typeof why === 'string' ? why : message) }
}

const OUTCOMES: Readonly<Record<string, string>> = {
  Complete: 'completed', Failed: 'failed', TimedOut: 'failed', Cancelled: 'cancelled'
}

/** Adds up span durations by step and node, excluding spans that contain other spans. */
function partsOfSpans (spans: readonly ShownSpan[], name: (id: string) => string): Part[] {
  const zero = Math.min(...spans.map(({ startUs }) => startUs))
  const parts = new Map<string, Part>()
  for (const span of spans) {
    if (span.category === 'request' || span.category === 'runner') continue
    const key = [span.nodeId, span.category, span.name.split(' #')[0]].join('\n')
    const startMs = (span.startUs - zero) / 1000
    const part = parts.get(key) ?? {
      words: partWords(span), name: span.name, category: span.category, node: name(span.nodeId), startMs,
      tookMs: 0
    }
    const tookMs = part.tookMs + span.durationUs / 1000
    parts.set(key, { ...part, startMs: Math.min(part.startMs, startMs), tookMs })
  }
  return [...parts.values()].sort((a, b) => a.startMs - b.startMs)
}

function around (
  facts: RequestFacts, about: RequestSummary, name: (id: string) => string
): RequestHistory['around'] {
  const { startMs, endMs } = about
  if (startMs === null) return []
  const [from, to] = [startMs - BEFORE_MS, (endMs ?? facts.nowMs) + AFTER_MS]
  const nodes = new Set(ranOn(facts, about))
  return facts.events.filter(({ at }) => Date.parse(at) >= from && Date.parse(at) <= to)
    .flatMap((event) => {
      const text = eventText(event, { ...about, nodes, name })
      return text === null ? [] : [{ idx: event.idx, at: event.at, name: partsOf(event)[0], text }]
    })
    .slice(-AROUND_MOST)
}

function thenWords (
  { state, snapshot }: StateThen, { modelId }: RequestSummary, name: (id: string) => string
): string[] {
  const { masterNodeId, cluster, nodeHealth = {}, instances = {}, runners = {} } = state
  const master = masterNodeId == null ? 'no master' : `master ${name(masterNodeId)}`
  const nodes = cluster === undefined ? null : `${cluster.liveNodes} of ${cluster.knownNodes} nodes live`
  const of = Object.values(instances).filter((one) => modelOf(one) === modelId)
  const kinds = of.flatMap(ranksOf)
    .map(({ runnerId }) => Object.keys(runners[runnerId] ?? {})[0] ?? 'no runner')
  const placed = modelId === null ? null
    : `${modelId} was ${of.length === 0 ? 'not placed' : `placed (${[...new Set(kinds)].join(', ')})`}`
  const unwell = Object.entries(nodeHealth).filter(([, { level }]) => level !== 'ok')
    .map(([nodeId, { reasons }]) => `${name(nodeId)} reported ${reasons.map(({ code }) => code).join(', ')}`)
  const first = [master, nodes, placed].filter((text) => text !== null).join(', ')
  return [`${first} (recorded ${snapshot.at})`, ...unwell].map(plain)
}

function nextSteps (
  { asked, ended, lost, open, id, tookMs }: Omit<RequestHistory, 'next'>,
  { state, trace, tracing }: RequestFacts, remedyOf: (reason: string) => string | null
): string[] {
  const { at } = asked
  const model = asked.modelId === null ? null : plain(asked.modelId)
  const failed = ended.how === 'failed'
  const remedy = failed && ended.reason !== null ? remedyOf(ended.reason) : null
  const of = model === null ? '' : ` --model ${model}`
  const answers = Object.values(state.instances).some((one) =>
    modelOf(one) === asked.modelId && serves(state, one))
  const grew = lost?.text.includes('memory_limit_mb') === true
  const steps: [applies: boolean, text: string][] = [
    [grew, `raise the limit of runners on ${lost?.node} and restart it: svc config set ` +
    'plugins.runners.memory_limit_mb MIB'],
    [remedy !== null, plain(remedy ?? '')],
    [open, `follow it: svc logs -f${of}`],
    [!open && model !== null && !answers, `${model} does not answer now: svc why ${model}`],
    [failed && at !== null, `the logs of that time: svc logs --since ${at}${of}`],
    [trace !== null && tookMs !== null, `every step with its time: svc traces ${asked.taskId ?? id}`],
    [trace === null && tracing === false, 'step times were not recorded; for the next request: svc traces on']
  ]
  return steps.filter(([applies]) => applies).map(([, text]) => text)
}
