import { randomUUID } from 'node:crypto'
import { delay, type NodeView, type RouteRequest } from '../../../kernel/index.js'
import { eachNode, onlyNode } from '../peers/each-node.js'
import { modelUrl } from '../peers/sources.js'
import { eitherSpelling, modelIn, nodeOf } from './request.js'
import type { ModelManager } from '../manager/manager.js'
import type { Answers } from '../routes.js'

type Staged = Answers['stage']['nodes'][number] & { reason: string | null }

interface StageBody { wait?: boolean, timeout_seconds?: number }

/** Seconds within which a node must confirm that it has started staging. */
const BEGIN_SECONDS = 15
const WAIT_SECONDS = 600

export async function stage (manager: ModelManager, request: RouteRequest): Promise<unknown> {
  const modelId = modelIn(request)
  const body = (request.body ?? {}) as StageBody & Record<string, unknown>
  const refs = eitherSpelling<string[]>(body, 'nodeIds', 'node_ids') ?? []
  const nodes = targets(manager, refs)
  // Wait until the store is known, because the node that forwarded this request does not retry.
  if (request.member !== null) await manager.access.learned(request.signal)
  if (manager.access.known() === undefined && manager.catalogue.copies(modelId).length === 0) {
    throw manager.access.none()
  }
  const { wait = false, timeout_seconds: seconds = WAIT_SECONDS } = body
  const results = await eachNode<Staged>(manager, nodes, {
    method: 'POST', path: `${modelUrl(modelId)}/stage`, body: { wait, timeout_seconds: seconds },
    caller: request.caller, ms: (wait ? seconds + BEGIN_SECONDS : BEGIN_SECONDS) * 1000, read: onlyNode,
    here: async () => await stageHere(manager, modelId, wait ? seconds : 0, request.signal),
    failed: ({ nodeId }, message) => ({ nodeId, status: 'failed', error: message, reason: 'unreachable' })
  })
  const ready = results.filter(({ status }) => status === 'complete').length
  return {
    commandId: request.headers['x-svc-command-id'] ?? randomUUID(),
    message: `${modelId} is on ${ready} of ${results.length} ${results.length === 1 ? 'node' : 'nodes'}.`,
    nodes: results
  }
}

/** The given nodes without duplicates; this node by default. Throws `node_not_found`. */
function targets (manager: ModelManager, refs: readonly string[]): NodeView[] {
  if (refs.length === 0) return [manager.cluster.nodes()[0]!]
  return [...new Map(refs.map((ref) => [nodeOf(manager, ref).installId, nodeOf(manager, ref)])).values()]
}

async function stageHere (
  manager: ModelManager, modelId: string, seconds: number, signal: AbortSignal
): Promise<Staged> {
  const job = manager.stager.stage(modelId)
  if (seconds > 0 && !job.over) {
    const done = new AbortController()
    const late = delay(manager.clock, seconds * 1000, AbortSignal.any([signal, done.signal]))
    // A client that disconnects ends the wait, not the transfer.
    await Promise.race([job.ended, late.catch(() => {})])
    done.abort()
  }
  const { nodeId } = manager.ctx.node
  const { state, failure } = job
  const status = state === 'pending' || state === 'downloading' || state === 'complete' ? state : 'failed'
  return { nodeId, status, error: failure?.message ?? null, reason: failure?.reason ?? null }
}
