import { closedObject } from './schema.js'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Audit } from './audit.js'
import type { Clock } from './clock.js'
import type { SvcError } from './errors.js'
import type { GossipCounters } from './gossip.js'
import type { Identity } from './identity.js'
import type {
  Context, Logger, Manifest, NodeInfo, Plugin, Section, SectionDecl, PluginParts
} from './plugin.js'
import type { Cluster, DialReport, LinkReport, NodeView, Session } from './services.js'
import type { KernelConfig } from '../config/kernel-settings.js'

/** Maximum size of a value that nodes publish by gossip, in bytes of JSON. */
export const MAX_READING_BYTES = 64 * 1024

export const COPIED_HOME_REMEDY =
  'Stop the process that runs from a copied home, remove node.json, node.key, ' +
  'node.crt and state from that home, and start it with a token of `svc join-token`: it joins as a new node.'

export const admittedMembers = {
  type: 'array', description: 'the members that it admitted; they stay until they are removed',
  items: closedObject({ installId: { type: 'string' }, name: { type: 'string' } })
} as const

/** Whether the member that serves a web page runs on this machine or on another one. */
export type PageOf = 'here' | 'elsewhere'

/** An open join token, not including its secret. `by`: the id of the caller that created it. */
export interface JoinTokenRecord { id: string, expires: string, by: string }

/** The node at the other end of a link; `address`: host:port at which it listens for members. */
export interface ClusterPeer extends Pick<NodeView, 'installId' | 'nodeId' | 'apiUrl'> {
  readonly address: string
  readonly rttMs: number | null
}

/** Continuously exchanges readings, such as free memory, between members; lost ones are not sent again. */
export interface GossipChannel {
  /** Queues a JSON value of at most MAX_READING_BYTES, replacing a queued value of the same key. */
  offer (key: string, value: unknown): void
  /** The newest reading from a peer, and its arrival time in monotonic milliseconds. */
  latest (installId: string, key: string): { readonly value: unknown, readonly atMs: number } | undefined
  counters (): GossipCounters
}

export interface ClusterCommands {
  /**
   * Runs a command on the master; a repeated `id` returns the first result. Throws the handler's error,
   * `no_master`, `no_quorum`, or `session_changed` if the outcome is unknown.
   */
  run (name: string, args: unknown, id?: string): Promise<{ readonly result: unknown }>
  /**
   * Registers a synchronous handler, which the master runs and which may write to master sections; returns a
   * function that unregisters it. `from`: install id of the node that sent the command.
   */
  handle (name: string, handler: (args: unknown, from?: string) => unknown): () => void
}

/** Cluster problems by health code; null for each code without a problem. */
export type ClusterProblems =
  Readonly<Record<'version_mismatch' | 'quorum_mismatch' | 'node_removed' | 'node_copied', string | null>>

/**
 * The cluster as the kernel uses it, opened by the cluster plugin or, if that is disabled, by
 * kernel/boot/lone-cluster.ts for a single node.
 */
export interface ClusterHost {
  readonly service: Cluster
  readonly session: Session & { readonly term: number }
  readonly sections: { section<T> (name: string, decl: SectionDecl): Section<T> }
  readonly commands: ClusterCommands
  readonly readings: GossipChannel
  readonly identity: Identity
  readonly network: {
    peers (): readonly ClusterPeer[]
    /** Measured throughput of the link to a member; null before the first measurement. */
    bytesPerSecond (installId: string): number | null
    dials (): readonly DialReport[]
    links (): readonly LinkReport[]
  }
  readonly directory: {
    /** Wall time in ms of a node's last sign of life; undefined if there was none since this start. */
    seenAt (installId: string): number | undefined
    silentMs (installId: string): number
  }
  /** Whether this node joined a cluster when this process started. */
  readonly joined: boolean
  /** False while durable writes fail. */
  readonly storing: boolean
  status (): { readonly quorum: 'ok' | 'lost', readonly stale: boolean }
  problems (): ClusterProblems
  /** The subset of `authorities` that a member may vouch for. */
  vouched (installId: string, authorities: Iterable<string>): string[]
  /** Whether the member that serves a web origin runs on this machine; null if no member serves it. */
  pageOf (origin: string): PageOf | null
  /** Calls `end` once if the session ends; returns a function that unregisters it. */
  openStream (id: string, end: () => void): () => void
  /** Calls `fn` after the nodes, the session or the documents change. */
  onChange (fn: () => void): () => void
  onStoring (fn: () => void): () => void
  /** Called once the API is listening. `handler` serves members' requests; `audit` records new members. */
  start (handler: (request: IncomingMessage, response: ServerResponse) => void,
    audit: () => Audit | undefined): void
  /** Announces that this node takes no new work and is about to stop. */
  leave (): void
  stop (): Promise<void>
}

/** Parameters of `ClusterPlugin.open`. */
export interface ClusterOpening {
  readonly node: NodeInfo
  readonly settings: KernelConfig['cluster']
  /** The address at which the API will listen. */
  readonly api: { readonly host: string, readonly port: number }
  readonly apiUrl: () => string | null
  /** `--join`: a join token, or host:port of a member. */
  readonly join: string | undefined
  /** Whether a caller's credential is still valid. */
  readonly stands: (callerId: string) => boolean
  /** Ids of a caller's credential, of the credential that created it, and so on to the first. */
  readonly makers: (callerId: string) => readonly string[]
  /** False if this node publishes no readings. */
  readonly gossip: boolean
  readonly vitals: () => Promise<object>
  readonly clock: Clock
  readonly log: Logger
  readonly emit: (kind: string, payload: Record<string, unknown>) => void
  /** Called when the members refuse this process; the process must then end. */
  readonly refused: (why: SvcError) => void
}

/** Implements the cluster. Opens before other plugins start, so enabling or disabling it needs a restart. */
export interface ClusterPlugin extends Plugin {
  readonly open: (opening: ClusterOpening) => Promise<ClusterHost>
}

/** Declares the plugin that implements the cluster; `start` gets the result of `open`. */
export function defineCluster<const M extends Manifest, H extends ClusterHost> (
  manifest: M, start: (ctx: Context<M>, host: H) => PluginParts<M>,
  open: (opening: ClusterOpening) => Promise<H>
): ClusterPlugin {
  return { manifest, start: (ctx: Context<M>, host?: unknown) => start(ctx, host as H), open }
}

export const isClusterPlugin = (plugin: Plugin | undefined): plugin is ClusterPlugin =>
  plugin !== undefined && 'open' in plugin
