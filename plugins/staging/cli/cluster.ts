import type { Amount } from './meter.js'
import type { VerbContext } from '../../../kernel/cli/index.js'

/** The parts of GET /state that the verbs about models read. */
export interface StateView {
  localNodeId: string
  nodeIdentities: Record<string, { friendlyName: string | null, nodeInstallId?: string | null }>
  lastSeen?: Record<string, string>
  downloads?: Record<string, Record<string, Transfer>[]>
}

/** How far a transfer is; bytes, bytes per second, milliseconds. */
interface Moved { total?: number, downloaded?: number, speed?: number, etaMs?: number | null }

/** A transfer in the state, below its tag. */
interface Transfer extends Moved {
  modelId: string
  attemptId: string
  errorMessage?: string | null
  reason?: string | null
  downloadProgress?: Moved
}

/** A model on its way to a node, or what came of it. */
export interface Staging extends Amount {
  nodeId: string
  modelId: string
  attemptId: string
  status: 'pending' | 'downloading' | 'complete' | 'failed'
  error: string | null
  reason: string | null
}

/** A node without a sign of life for so long does not count as there, ms. */
const SILENT_MS = 15_000

const statusOf: Readonly<Record<string, Staging['status']>> = {
  DownloadPending: 'pending',
  DownloadOngoing: 'downloading',
  DownloadCompleted: 'complete',
  DownloadFailed: 'failed'
}

export function stagingsOf ({ downloads = {} }: StateView): Staging[] {
  return Object.entries(downloads).flatMap(([nodeId, list]) => list.flatMap((tagged) => {
    const [tag, transfer] = Object.entries(tagged)[0]!
    const status = statusOf[tag]
    return status === undefined ? [] : [readStaging(nodeId, status, transfer)]
  }))
}

function readStaging (
  nodeId: string, status: Staging['status'],
  { modelId, attemptId, errorMessage: error = null, reason = null, downloadProgress, ...own }: Transfer
): Staging {
  const { total = 0, downloaded = 0, speed = 0, etaMs = null } = { ...own, ...downloadProgress }
  const done = status === 'complete' ? total : downloaded
  return { nodeId, modelId, attemptId, status, error, reason, total, done, rate: speed, etaMs }
}

/** What people call the node; its id when it has no name or is gone. */
export function nameOf ({ nodeIdentities }: StateView, nodeId: string): string {
  return nodeIdentities[nodeId]?.friendlyName ?? nodeId
}

/** True while the node gives signs of life, by the clock of the node that answers. */
export function isThere ({ nodeIdentities, lastSeen = {}, localNodeId }: StateView, nodeId: string): boolean {
  if (nodeIdentities[nodeId] === undefined) return false
  const [now, then] = [lastSeen[localNodeId], lastSeen[nodeId]].map((at) => Date.parse(at ?? ''))
  const age = now! - then!
  return nodeId === localNodeId || Number.isNaN(age) || age <= SILENT_MS
}

/** Node ids for what the operator calls nodes: id, install id, name or `local`. Throws VerbError (3, 2). */
export function findNodes (ctx: VerbContext, state: StateView, refs: readonly string[]): string[] {
  const all = Object.entries(state.nodeIdentities)
  return [...new Set(refs.map((ref) => {
    if (ref === 'local') return state.localNodeId
    const found = all.filter(([nodeId, { friendlyName, nodeInstallId }]) =>
      [nodeId, nodeInstallId, friendlyName].includes(ref))
    if (found.length === 1) return found[0]![0]
    if (found.length > 1) {
      const ids = found.map(([nodeId]) => nodeId).join(', ')
      throw ctx.fail(2, `"${ref}" names ${found.length} nodes; give an id: ${ids}`)
    }
    throw ctx.fail(3, `there is no node "${ref}"; there are: ${
      all.map(([nodeId]) => nameOf(state, nodeId)).join(', ')}`)
  }))]
}
