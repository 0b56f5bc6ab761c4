import { plain } from './output.js'
import type { Gpu } from '../api/vitals.js'

interface Reason { code: string, severity?: string, message: string, remediation: string }
export interface Health { level: 'ok' | 'warn' | 'error', reasons: Reason[] }
interface Bytes { inBytes: number }

interface Identity {
  friendlyName: string | null, svcVersion: string, apiUrl: string | null, nodeInstallId?: string | null
}

/** The keys of GET /state that verbs read; others are omitted. */
export interface ClusterState {
  sessionId?: string | null
  masterNodeId: string | null
  localNodeId: string
  nodeIdentities: Record<string, Identity>
  nodeHealth: Record<string, Health>
  nodeCapabilities: Record<string, string[]>
  nodeMemory?: Record<string, { ramTotal: Bytes, ramAvailable: Bytes } | null>
  nodeSystem?: Record<string, {
    pcpuUsage?: number | null, gpuUsage?: number | null, accelerators?: Gpu[]
  } | null>
  lastSeen?: Record<string, string>
  /** Drained nodes by install id. */
  drainedNodes?: Record<string, { since: string }>
  topology?: {
    /** Ids of the live nodes. */
    nodes?: readonly string[]
    connections?: Record<string, Record<string, { rttMs: number | null, bytesPerSecond: number | null }[]>>
  }
  cluster?: {
    term: number, quorum: 'ok' | 'lost', stale: boolean, partition: boolean, knownNodes: number
    liveNodes: number
  }
}

export interface NamedNodes {
  localNodeId: string
  nodeIdentities: Record<string, { friendlyName?: string | null, nodeInstallId?: string | null }>
}

export const nameOf = ({ nodeIdentities }: Pick<NamedNodes, 'nodeIdentities'>, nodeId: string): string =>
  plain(nodeIdentities[nodeId]?.friendlyName ?? nodeId)
