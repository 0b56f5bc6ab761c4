import type { Clock, Logger, NodeInfo } from '../../kernel/cluster.js'
import type { QuorumSetting } from './election/rules.js'
import type { Timing } from './election/timing.js'
import type { Links } from './links/links.js'
import type { LinkedNode } from './members/directory.js'
import type { Members } from './members/file.js'
import type { Applicant } from './members/member.js'

export interface LinkPeer extends LinkedNode { readonly address: string, readonly rttMs: number | null }

/** The subset of Links that the cluster uses; a lone node has no links. */
export interface Transport extends Pick<Links, 'send' | 'broadcast' | 'request'> {
  peers (): readonly LinkPeer[]
  drop (installId: string): void
}

export interface ClusterOptions {
  node: NodeInfo
  clock: Clock
  log: Logger
  random: () => number
  quorum: QuorumSetting
  timing: Timing
  /** Folder for the state files; null keeps the state in memory only. */
  folder: string | null
  members: Members
  /** True if this home has just joined and so has the member list but not the control document. */
  joining?: boolean
  /** Writes a test file to check the disk; called every other heartbeat. */
  diskWrites?: () => Promise<boolean>
  /** The record of this node, with its current addresses. */
  self: () => Applicant
  apiUrl: () => string | null
  transport: Transport
  emit: (kind: string, payload: Record<string, unknown>) => void
}
