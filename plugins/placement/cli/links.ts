import { progressOf } from '../progress.js'
import type { Progress } from '../progress.js'
import { nameOf } from './api.js'
import type { SeenState } from './api.js'
import { linesOf } from './sums.js'
import { stateText } from './watch.js'

/** The links from a model's name to an answer, in order. */
export type LinkName = 'card' | 'copy' | 'backend' | 'placement' | 'runner' | 'request'

/** One link. `ok` is null where an earlier one is broken. */
export interface Link {
  link: LinkName
  ok: boolean | null
  message: string
  /** The command that mends it. */
  remedy: string | null
  /** The sums of memory, where they are the cause. */
  sums?: string[]
}

/** GET /models/{id}/card. */
export interface Card {
  card: { engine: string, tasks: string[], backends: string[] }
  origin: string
  copies: { nodeId: string, nodeName: string | null, kind: string, live?: boolean }[]
}

/** A row of GET /instance/previews. */
export interface Row { error: string | null, reason: string | null, details: Record<string, unknown> | null }

/** Whether the model answers, and since when or why not. */
export interface Ready { ok: boolean, detail: string }

/** What is known of a model. */
export interface Known {
  modelId: string
  card: Card | undefined
  state: SeenState
  previews: readonly Row[]
  /** Null when nobody was asked. */
  ready: Ready | null
}

type Found = Omit<Link, 'link'>

/** Every link, those after the first broken one unknown. Pure. */
export function linksOf (known: Known): Link[] {
  const steps: [LinkName, () => Found][] = [
    ['card', () => cardLink(known)], ['copy', () => copyLink(known)], ['backend', () => backendLink(known)],
    ['placement', () => placementLink(known)], ['runner', () => runnerLink(known)],
    ['request', () => requestLink(known)]
  ]
  let broken = false
  return steps.map(([link, look]) => {
    if (broken) return { link, ok: null, message: 'not looked at', remedy: null }
    const found = look()
    broken = found.ok === false
    return { link, ...found }
  })
}

const good = (message: string): Found => ({ ok: true, message, remedy: null })
const bad = (message: string, remedy: string): Found => ({ ok: false, message, remedy })

function cardLink ({ modelId, card }: Known): Found {
  return card === undefined
    ? bad(`no model is called ${modelId}`, `svc pull ${modelId} (svc ls shows those that there are)`)
    : good(`${card.card.tasks.join(', ') || 'no task'}, runs on engine ${card.card.engine}`)
}

/** Somewhere in the cluster; whoever runs it fetches it from there. */
function copyLink ({ modelId, card }: Known): Found {
  const copies = card!.copies.filter(({ kind }) => kind !== 'receiving')
  const live = copies.filter((copy) => copy.live !== false)
  const names = (list: typeof copies): string =>
    [...new Set(list.map(({ nodeId, nodeName }) => nodeName ?? nodeId))].join(', ')
  if (live.length > 0) return good(`on ${names(live)}`)
  if (copies.length > 0) {
    return bad(`only ${names(copies)} had it and gives no sign of life`,
      `svc pull ${modelId}, or bring the node back (svc nodes)`)
  }
  return card!.copies.length > 0
    ? bad('its files are on their way', 'svc downloads shows how far they are')
    : bad('no node has its files', `svc pull ${modelId}`)
}

function backendLink ({ card, previews }: Known): Found {
  const none = previews.length > 0 && previews.every(({ reason }) => reason === 'no_backend')
  return none
    ? bad(previews[0]!.error!, `svc plugin ls shows which plugin brings engine ${card!.card.engine}; ` +
      'svc plugin enable NAME and a restart switch it on')
    : good(`${card!.card.backends.join(' or ')} is offered`)
}

/** How the instances of the model stand, the one that is furthest first. */
function progressesOf ({ modelId, state }: Known): (Progress & { kind: 'ready' | 'starting' | 'failed' })[] {
  const order = ['ready', 'starting', 'failed', 'gone']
  return Object.entries(state.instances)
    .filter(([, one]) => one.RingInstance.shardAssignments.modelId === modelId)
    .map(([instanceId]) => progressOf(state, instanceId)).filter((progress) => progress.kind !== 'gone')
    .sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind))
}

function placementLink (known: Known): Found {
  const { modelId, state, previews } = known
  const [first] = progressesOf(known)
  if (first !== undefined) {
    const { nodeToRunner } = first.instance.RingInstance.shardAssignments
    return good(`on ${Object.keys(nodeToRunner).map((id) => nameOf(state, id)).join(', ')}`)
  }
  if (previews.some(({ error }) => error === null)) {
    return bad('it is not placed on any node', `svc place ${modelId}`)
  }
  const [refusal] = previews
  if (refusal === undefined) return bad('it is not placed on any node', `svc place ${modelId} --explain`)
  return {
    ...bad(`it is not placed, and cannot be: ${refusal.error!}`, `svc place ${modelId} --explain`),
    sums: linesOf(modelId, refusal.details, (id) => nameOf(state, id))
  }
}

function runnerLink (known: Known): Found {
  const { modelId, state } = known
  const [first] = progressesOf(known)
  const { instanceId } = first!.instance.RingInstance
  if (first!.kind === 'ready') return good('every runner is ready')
  if (first!.kind === 'failed') {
    const nodes = first!.nodeIds.map((id) => nameOf(state, id)).join(', ')
    return bad(`it failed on ${nodes}: ${first!.message}`,
      `svc stop ${instanceId}, mend the cause, then svc place ${modelId}`)
  }
  const { nodeToRunner } = first!.instance.RingInstance.shardAssignments
  const texts = first!.ranks.map((rank) => `${nameOf(state, rank.nodeId)}: ${
    stateText(state, rank, state.runners[nodeToRunner[rank.nodeId] ?? ''], modelId)}`)
  return bad(`it is starting (${texts.join('; ')})`, 'wait for it: svc ps shows how far it is')
}

function requestLink ({ modelId, ready, state }: Known): Found {
  if (ready === null) return good('not asked')
  if (ready.ok) return good(ready.detail)
  return bad(`${nameOf(state, state.localNodeId)} gets no answer from it: ${ready.detail}`,
    `svc events --since 10m tells of failures; svc stop ${modelId} and svc place ${modelId} start it anew`)
}
