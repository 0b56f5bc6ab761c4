import type { IncomingHttpHeaders } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { defineService } from './plugin.js'
import type { DeclarationSet } from './declared.js'
import type { GossipCounters } from './gossip.js'
import type { LogRing } from '../observe/log-ring.js'
import type { SvcError } from './errors.js'
import type { Caller, CapabilityCall, CapabilityDecl, Manifest } from './plugin.js'

export interface Command {
  readonly commandId: string
  readonly caller: Caller
  readonly summary: string
  /** Ends the command; its stream ends with this reason. */
  abort (reason: 'cancelled' | 'session_changed' | 'shutting_down'): void
}

/** Every open command of this node, so that it can be cancelled, drained or ended with its session. */
export interface Commands {
  /** Registers a command until the returned function is called. Throws `shutting_down`. */
  track (command: Command): () => void
  /** Cancels by command id. False when unknown. Throws `missing_grant` for another caller's command. */
  cancel (commandId: string, caller: Caller): boolean
  readonly open: number
}
export const CommandService = defineService<Commands>('kernel.commands')

export interface Session {
  /** The current session, or the last one while no master is known. */
  readonly sessionId: string
  readonly isMaster: boolean
  /** Null while no master is known. */
  readonly masterNodeId: string | null
  /** Calls `fn` after a new session began, and after the master was lost. */
  onChange (fn: () => void): () => void
}
export const SessionService = defineService<Session>('kernel.session')

export interface NodeView {
  /** Id of its current or last start; its install id before the first one. */
  readonly nodeId: string
  readonly installId: string
  readonly name: string
  readonly self: boolean
  readonly live: boolean
  /** The node has announced its stop: it takes no new work. */
  readonly leaving?: boolean
  readonly master: boolean
  readonly apiUrl: string | null
}

export interface MemberRequest {
  readonly method: string
  /** Path and query as on the public API. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** The other node applies this caller's authorities and adds no rule. */
  readonly caller: Caller
  /** Ends the request, also while its answer is being read. */
  readonly signal?: AbortSignal
  readonly timeoutMs?: number
}

export interface MemberResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Destroying it ends the request at the other node. */
  readonly body: Readable
}

/** Small JSON messages between the same plugin on all nodes. */
export interface Channel<T> {
  /** False when there is no link to that install id, or it is congested. */
  send (to: string, message: T): boolean
  broadcast (message: T): number
  close (): void
}

export interface Cluster {
  readonly self: { readonly installId: string, readonly nodeId: string }
  readonly masterInstallId: string | null
  /** This node first, then every other member, live or not. */
  nodes (): readonly NodeView[]
  /** By node id, install id, name or `local`. */
  resolve (ref: string): NodeView | undefined
  /** The members that a credential, those made with it, or a node has admitted. */
  admittedBy (id: string): { installId: string, name: string }[]
  /** Lossy while a link is down; in order on each link. `from` is an install id. */
  channel<T> (name: string, receive: (from: string, message: T) => unknown): Channel<T>
  /** Calls `fn` after a link to a node opened or closed. */
  onPeers (fn: (change: { installId: string, up: boolean }) => void): () => void
  /**
   * Marks a node live because another node forwarded its sign of life; it stays live while its link is open.
   */
  lives (nodeId: string): void
  /** Asks another node's API. Throws `unreachable`. */
  request (installId: string, request: MemberRequest): Promise<MemberResponse>
}
export const ClusterService = defineService<Cluster>('kernel.cluster')

/** Every durable event of this node, for the plugin that keeps them. */
export interface EventTap {
  /** Every declared kind, once all plugins have started. */
  kinds (): Iterable<string>
  onDurable (fn: (event: { kind: string, payload: Record<string, unknown> }) => void): () => void
}
export const EventTapService = defineService<EventTap>('kernel.event-tap')

/** A stored token, without its secret. Times are ISO-8601. */
export interface TokenRecord {
  id: string
  label: string
  authorities: string[]
  created: string
  expires: string | null
  lastUsedDay: string | null
  revoked: boolean
  /** Id of the caller that made it; the token ends with that caller's own. */
  by: string
}

export interface Tokens {
  /**
   * Creates a token with at most its maker's authorities and lifetime; `expiresAt` null: the maker's. Only
   * the result has the secret. Throws `invalid_request` for an unknown authority or a later end,
   * `missing_grant` for an authority that the maker lacks.
   */
  create (
    options: { label: string, authorities: string[], expiresAt: string | null, by: Caller }
  ): Promise<{ token: string, record: TokenRecord }>
  list (): TokenRecord[]
  /** False when there is no such token. */
  revoke (id: string): Promise<boolean>
  /** Tokens that were revoked themselves, not along with their makers. */
  revoked (): Pick<TokenRecord, 'id' | 'expires'>[]
}
export const TokenService = defineService<Tokens>('kernel.tokens')

/** A handler of a capability; the types of its arguments come from the declaration. */
export type CapabilityHandler = (input: never, call: CapabilityCall<never>) => unknown

export interface CapabilityServer {
  /**
   * Adds a capability; returns a function that removes it. Throws an Error with every problem, a line each.
   */
  register (owner: string, decl: CapabilityDecl, handler: CapabilityHandler): () => void
  /** Ends the open calls of a plugin, each with a new error; resolves when all have ended. */
  end (owner: string, why: () => SvcError): Promise<void>
}

/** `limits` of svc.yaml for calls; streams in bytes and ms. */
export interface CallLimits {
  concurrency: number
  queue: number
  streamBytes: number
  streamStallMs: number
  mediaBytes: number
  mediaStallMs: number
}

/** The capabilities of all plugins, for the one that serves them. */
export interface CapabilityHost {
  readonly limits: Partial<CallLimits>
  /**
   * Registers all capabilities with the server, and later ones as they come; returns a function that stops
   * it.
   */
  serve (server: CapabilityServer): () => void
  /** Install id of another node that offers a capability; null if none does. */
  elsewhere (capabilityId: string): string | null
}
export const CapabilityHostService = defineService<CapabilityHost>('kernel.capabilities')

export interface PluginReport { name: string, version: string, summary: string, effects: string[] }

/** A dialled address of another node. */
export interface DialReport {
  readonly address: string
  /** The node at that address; null for a hint that has not answered yet. */
  readonly installId: string | null
  readonly state: 'connected' | 'waiting' | 'dialling'
  /** Why the newest attempt failed: `refused`, `timeout`, `wrong_key`... */
  readonly reason: string | null
  /** Failed attempts in a row. */
  readonly attempts: number
  readonly nextInMs: number | null
}

/** A link to another node, with its counters since it opened. */
export interface LinkReport {
  readonly installId: string
  readonly framesIn: number
  readonly framesOut: number
  readonly bytesIn: number
  readonly bytesOut: number
  readonly buffered: number
  /** Messages of unknown shape, since it started. */
  readonly dropped: number
}

export interface Inspection {
  plugins (): PluginReport[]
  warnings (): string[]
  /** The URL clients use, or null before listening. */
  url (): string | null
  openCommands (): number
  openStreams (): number
  dials (): readonly DialReport[]
  links (): readonly LinkReport[]
  /** The settings in effect as GET /config shows them: each with its origin, secrets masked. */
  config (): { file: string, entries: unknown[] }
}
export const InspectionService = defineService<Inspection>('kernel.inspection')

export const GossipService = defineService<{ counters (): GossipCounters }>('kernel.gossip')

/** A live connection as a node reports it. */
export interface LinkFact {
  readonly nodeId: string
  readonly ipAddress: string
  readonly port: number
  readonly rttMs: number | null
  readonly bytesPerSecond: number | null
}

interface Bytes { readonly inBytes: number }
interface GpuMemory {
  readonly vendor: string
  readonly vramTotalBytes: number | null
  readonly vramUsedBytes: number | null
}

/** A node's report of its resources for models; null for unknown ones. */
export interface NodeReport {
  readonly view: NodeView
  readonly memory: { readonly ramTotal: Bytes, readonly ramAvailable: Bytes } | null
  /** `accelerators`: all GPUs that programs of this node can use. */
  readonly system: { readonly accelerators: readonly GpuMemory[] } | null
  readonly resources: NodeResources | null
  readonly links: readonly LinkFact[]
}

/** A node's part of `nodeResources` in /state; plugins may add to it. */
export interface NodeResources {
  readonly backends: readonly string[]
  /** Only `full` nodes run models. */
  readonly participation: 'full' | 'management'
  /** False if the node publishes no readings, such as memory. */
  readonly readings?: false
  readonly [key: string]: unknown
}

export interface StateReader {
  /** The object that GET /state answers an operator with. */
  read (): Promise<Record<string, unknown>>
  /** The newest report of every node, this one first. Its own readings are at most 2 s old. */
  nodes (): readonly NodeReport[]
  /**
   * Calls `fn` after changes, once for a burst of them. Changes of readings, such as memory and transfer
   * progress, do not count. Returns a function that unregisters it.
   */
  onChange (fn: () => void): () => void
}
export const StateService = defineService<StateReader>('kernel.state')

export interface StateHistory {
  /**
   * The state at an index of the event log, or at a time (ISO-8601), as GET /state?at= answers an operator.
   * Throws `invalid_request` naming `at`, `not_recorded`, `not_ready`.
   */
  at (moment: string): Promise<PastState>
}
/** `events` is for operators only; everything else is filtered for other callers as GET /state is. */
export interface PastState { readonly events: unknown, readonly [key: string]: unknown }
export const StateHistoryService = defineService<StateHistory>('kernel.state-history')

export interface LocalRequest {
  readonly path: string
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly body?: object
  /** Accept header, for routes with several media types. */
  readonly accept?: string
  /** The caller whose authorities apply. */
  readonly caller: Caller
  readonly signal: AbortSignal
}

/** The complete answer, as it would be sent. */
export interface LocalResponse { readonly status: number, readonly text: string }

/** An answer in progress; aborting the signal of its request ends its work. */
export interface OwnStream {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly bytes: Readable
}

/** This node's own API without a socket: with every check of an outside request except its credential. */
export interface LocalApi {
  /** Throws the signal's reason when that ends the wait. */
  ask (question: LocalRequest): Promise<LocalResponse>
  /** Resolves when the answer begins. Throws as `ask` does. */
  open (question: LocalRequest): Promise<OwnStream>
}
export const OwnApiService = defineService<LocalApi>('kernel.own-api')

export interface ExtraListener {
  port (): number | null
  close (): void
}

/** Further ports of the public API, at the host where the node listens. */
export interface Listeners {
  /**
   * Listens as soon as the node does. `rewrite` maps a requested path to that of a route; `failed` gets the
   * error of a port that cannot be listened on, such as EADDRINUSE.
   */
  open (options: {
    port: number, rewrite: (path: string) => string, failed: (error: NodeJS.ErrnoException) => void
  }): ExtraListener
  /**
   * Serves HTTP/1.1 on a decrypted relay connection. The connection grants no authority: each request needs a
   * credential of `device`, whom the handshake authenticated, and has what its grant leaves to relays.
   */
  accept (connection: Duplex, from: { device: string }): void
}
export const ListenerService = defineService<Listeners>('kernel.listeners')

export interface ConfigKeeper {
  /**
   * Writes a value to svc.yaml that is already in effect, by dotted path: it needs no restart. Throws
   * `invalid_request`, `missing_grant`, and the disk's error.
   */
  keep (path: string, value: unknown, caller: Caller): void
}
export const ConfigService = defineService<ConfigKeeper>('kernel.config')

export interface Declarations {
  /** The kernel's manifest first, then those of the plugins that are on. */
  readonly manifests: readonly Manifest[]
  /** Those of the disabled plugins. */
  readonly off: readonly Manifest[]
  /** The same with the kernel's verbs, routes and settings, as on the command line. */
  whole (): Promise<DeclarationSet>
}
export const DeclarationService = defineService<Declarations>('kernel.declarations')

export const LogRingService = defineService<LogRing>('kernel.log-ring')
