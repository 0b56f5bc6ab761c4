import { retryUntil, exitFor, storePath } from './api.js'
import { isThere, stagingsOf, type StateView } from './cluster.js'
import { createMeter, showReadings, type Reading } from './meter.js'
import {
  nameOf, plain, readModelId, realPace, stallDetector, type WaitClock, type Verb, type VerbContext
} from '../../../kernel/cli/index.js'
import { findNodes } from '../../cluster/cli/nodes.js'
import type { Answers } from '../routes.js'

/** Poll interval in ms; the state's numbers are up to 2 s old anyway, so a shorter one gains little. */
const POLL_MS = 1000

export function createStage (pace: WaitClock): Verb {
  return {
    async run (ctx, [model], options) {
      const modelId = readModelId(ctx, model!)
      const state = await ctx.client.json<StateView>('/state')
      const nodeIds = targets(ctx, state, options)
      const answer = await ctx.client.json<Answers['stage']>(`${storePath(modelId)}/stage`,
        { method: 'POST', body: { nodeIds } })
      try {
        const wanted = { modelId, before: state, nodes: answer.nodes, limitMs: limitOf(ctx, options) }
        const nodes = options['wait'] === false ? answer.nodes : await watch(ctx, pace, wanted)
        return finish(ctx, { ...answer, nodes }, state, options['wait'] !== false)
      } catch (error) {
        if (!ctx.signal.aborted) throw error
        ctx.err.line('the transfer continues; svc downloads shows it')
        return 130
      }
    }
  }
}

export default createStage(realPace)

/** Time limit of the wait in ms; Infinity if the option gives no number of seconds. */
const limitOf = (ctx: VerbContext, options: Record<string, unknown>): number =>
  typeof options['wait'] === 'string' && options['wait'] !== '' ? ctx.wait! * 1000 : Infinity

function targets (ctx: VerbContext, state: StateView, given: { node?: string[], all?: boolean }): string[] {
  if (given.all !== true) return findNodes(ctx, state, given.node ?? [])
  if (given.node !== undefined) throw ctx.fail(2, '--all and --node cannot be combined')
  return Object.keys(state.nodeIdentities).filter((nodeId) => isThere(state, nodeId))
}

interface Watched { modelId: string, before: StateView, nodes: readonly StagedNode[], limitMs: number }

async function watch (
  ctx: VerbContext, pace: WaitClock, { modelId, before, nodes, limitMs }: Watched
): Promise<StagedNode[]> {
  const attempts = new Map(stagingsOf(before).filter((one) => one.modelId === modelId)
    .map((one) => [one.nodeId, one.attemptId]))
  const show = display(ctx, modelId, before, nodes)
  const began = pace.mono()
  const isStill = stallDetector(pace)
  let watched: StageWatch = { nodes, goneSince: new Map() }
  for (let still = false; !still && !watched.nodes.every(isOver) && pace.mono() - began < limitMs;) {
    await pace.pause(POLL_MS, ctx.signal)
    const state = await retryUntil<StateView>(ctx, '/state')
    still = isStill(JSON.stringify(stagingsOf(state)))
    watched = advance(watched, { state, modelId, attempts, elapsedMs: pace.mono() - began })
    show(state, watched.nodes)
  }
  ctx.err.end()
  return [...watched.nodes]
}

type Show = (state: StateView, nodes: readonly StagedNode[]) => void

function display (ctx: VerbContext, modelId: string, before: StateView, nodes: readonly StagedNode[]): Show {
  const meters = new Map(nodes.map(({ nodeId }) =>
    [nodeId, createMeter(`${modelId} to ${nameOf(before, nodeId)}`)]))
  return (state, now) => {
    const open = new Set(now.filter((node) => !isOver(node)).map((node) => node.nodeId))
    const readings = stagingsOf(state).flatMap((one): Reading[] => {
      const meter = one.modelId === modelId && open.has(one.nodeId) ? meters.get(one.nodeId) : undefined
      return meter === undefined ? [] : [meter(one)]
    })
    showReadings(ctx, readings)
  }
}

function finish (ctx: VerbContext, answer: Answers['stage'], state: StateView, waited: boolean): number {
  const { nodes } = answer
  if (ctx.out.json) ctx.out.value(answer)
  else {
    ctx.out.table(['NODE', 'STATUS', 'ERROR'], nodes.map((node) =>
      [nameOf(state, node.nodeId), node.status, plain(node.error ?? '-')]))
  }
  const failed = nodes.filter((node) => node.status === 'failed')
  if (failed.some(doesNotFit)) return 6
  if (failed.length > 0) return 1
  if (nodes.every(isOver)) return 0
  ctx.err.line(`the transfer continues${waited ? ' after the timeout' : ''}; svc downloads shows it`)
  return waited ? 4 : 0
}

const doesNotFit = ({ reason, error }: StagedNode): boolean =>
  exitFor(reason) === 6 || /\bno_safe_fit\b/.test(error ?? '')

export type StagedNode = Answers['stage']['nodes'][number] & { reason?: string | null }

/** All nodes and, for each lost node, when it was lost, in ms since the wait began. */
export interface StageWatch { nodes: readonly StagedNode[], goneSince: ReadonlyMap<string, number> }

export interface StageSnapshot {
  state: StateView
  modelId: string
  /** By node, the id of its last attempt before the stage request. */
  attempts: ReadonlyMap<string, string>
  /** Milliseconds since the stage request. */
  elapsedMs: number
}

/** Milliseconds after which a lost node counts as failed. */
const GONE_MS = 60_000
/** Milliseconds after the request during which the state may still show an earlier attempt as complete. */
const STALE_MS = 5000

export function isOver ({ status }: StagedNode): boolean {
  return status === 'complete' || status === 'failed'
}

export function advance ({ nodes, goneSince }: StageWatch, look: StageSnapshot): StageWatch {
  const gone = new Map(nodes.filter((node) => !isOver(node) && !isThere(look.state, node.nodeId))
    .map(({ nodeId }) => [nodeId, goneSince.get(nodeId) ?? look.elapsedMs]))
  return { goneSince: gone, nodes: nodes.map((node) => step(node, gone.get(node.nodeId), look)) }
}

function step (node: StagedNode, goneSince: number | undefined, look: StageSnapshot): StagedNode {
  if (isOver(node)) return node
  if (goneSince !== undefined && look.elapsedMs - goneSince >= GONE_MS) {
    return { ...node, status: 'failed', error: 'the node does not respond; `svc nodes` shows more' }
  }
  const found = stagingsOf(look.state).find((one) =>
    one.nodeId === node.nodeId && one.modelId === look.modelId)
  if (found === undefined) return node
  const { status, error, reason } = found
  const earlier = look.attempts.has(node.nodeId) && look.attempts.get(node.nodeId) === found.attemptId
  if (earlier && status === 'failed') return node
  if (earlier && status === 'complete' && look.elapsedMs < STALE_MS) return node
  return { ...node, status, error: status === 'failed' ? error ?? 'the node gave no reason' : null, reason }
}
