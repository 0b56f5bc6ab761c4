import type { Amount } from './meter.js'

export interface StateView {
  localNodeId: string
  nodeIdentities: Record<string, { friendlyName: string | null, nodeInstallId?: string | null }>
  lastSeen?: Record<string, string>
  downloads?: Record<string, Record<string, Transfer>[]>
}

interface Moved { total?: number, downloaded?: number, speed?: number, etaMs?: number | null }

interface Transfer extends Moved {
  modelId: string, attemptId: string, errorMessage?: string | null, reason?: string | null
  downloadProgress?: Moved
}

export interface Staging extends Amount {
  nodeId: string, modelId: string, attemptId: string
  status: 'pending' | 'downloading' | 'complete' | 'failed'
  error: string | null, reason: string | null
}

/** Milliseconds without a heartbeat after which a node counts as lost. */
const SILENT_MS = 15_000

const statusOf: Readonly<Record<string, Staging['status']>> = {
  DownloadPending: 'pending', DownloadOngoing: 'downloading', DownloadCompleted: 'complete',
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
  const { total: totalBytes = 0, downloaded = 0, speed: bytesPerSecond = 0, etaMs = null } =
    { ...own, ...downloadProgress }
  const downloadedBytes = status === 'complete' ? totalBytes : downloaded
  return {
    nodeId, modelId, attemptId, status, error, reason, totalBytes, downloadedBytes, bytesPerSecond, etaMs
  }
}

/** Whether the node is alive, judged by the clock of the node that sent the state. */
export function isThere ({ nodeIdentities, lastSeen = {}, localNodeId }: StateView, nodeId: string): boolean {
  if (nodeIdentities[nodeId] === undefined) return false
  const [now, then] = [lastSeen[localNodeId], lastSeen[nodeId]].map((at) => Date.parse(at ?? ''))
  const age = now! - then!
  return nodeId === localNodeId || Number.isNaN(age) || age <= SILENT_MS
}
