import type { Clock, Logger, NodeInfo } from '../../kernel/cluster.js'
import type { QuorumSetting } from './election/rules.js'
import type { Timing } from './election/timing.js'
import type { Links } from './links/links.js'
import type { LinkedNode } from './members/directory.js'
import type { Members } from './members/file.js'
import type { Applicant } from './members/member.js'

/** A node at the other end of a link. */
export interface LinkPeer extends LinkedNode {
  readonly address: string
  readonly rttMs: number | null
}

/** The links as the cluster uses them; a lone node has none. */
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
  /** The links as the cluster uses them; a lone node has none. */
  folder: string | null
  members: Members
  /** This home has just joined: it knows the members, not their decisions. */
  joining?: boolean
  /** Whether the disk takes a test write; asked every other heartbeat. */
  diskWrites?: () => Promise<boolean>
  /** This node as others should know it, with the addresses of now. */
  self: () => Applicant
  apiUrl: () => string | null
  transport: Transport
  /** Publishes a control event. */
  emit: (kind: string, payload: Record<string, unknown>) => void
}
