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
  /** Ends the command; its stream gets one terminal with this reason. */
  abort (reason: 'cancelled' | 'session_changed' | 'shutting_down'): void
}

/** Every open command of this node, so that it can be cancelled, drained or ended with its session. */
export interface Commands {
  /** Registers a command until the returned function is called. Throws `shutting_down`. */
  track (command: Command): () => void
  /** Cancels by command id. False when unknown. Throws `missing_grant` for somebody else's command. */
  cancel (commandId: string, caller: Caller): boolean
  readonly open: number
}
export const CommandService = defineService<Commands>('kernel.commands')

/** The node's cluster session as plugins may know it. */
export interface Session {
  /** The session this node is in, or was in last while no master is known. */
  readonly sessionId: string
  readonly isMaster: boolean
  /** Null while no master is known. */
  readonly masterNodeId: string | null
  /** Calls `fn` after a new session began, and after the master was lost. */
  onChange (fn: () => void): () => void
}
export const SessionService = defineService<Session>('kernel.session')

export interface NodeView {
  /** Id of its present or last start; its install id before the first one. */
  readonly nodeId: string
  readonly installId: string
  readonly name: string
  readonly self: boolean
  readonly live: boolean
  /** It has said that it stops: it takes no new work. */
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
  /** The members that a credential, those that it made, or a node has admitted. */
  admittedBy (id: string): { installId: string, name: string }[]
  /** Lossy while a link is down; in order on each link. `from` is an install id. */
  channel<T> (name: string, receive: (from: string, message: T) => unknown): Channel<T>
  /** Calls `fn` after a link to a node opened or closed. */
  onPeers (fn: (change: { installId: string, up: boolean }) => void): () => void
  /** Marks a node live whose sign another node has forwarded: it counts as live while its link is open. */
  lives (nodeId: string): void
  /** Asks another node's API. Throws `unreachable`. */
  request (installId: string, request: MemberRequest): Promise<MemberResponse>
}
export const ClusterService = defineService<Cluster>('kernel.cluster')

/** Every durable event of this node, for the plugin that keeps them. */
export interface EventTap {
  /** Every kind there is, once all plugins have started. */
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
  /** Id of the caller that made it; it ends with that one's own token. */
  by: string
}

export interface Tokens {
  /**
   * Makes a token that may do no more than its maker and ends no later; null: when the maker's ends. Only the
   * answer has the secret. Throws `invalid_request` for an unknown authority or a later end, `missing_grant`
   * for an authority that the maker lacks.
   */
  create (
    options: { label: string, authorities: string[], expiresAt: string | null, by: Caller }
  ): Promise<{ token: string, record: TokenRecord }>
  list (): TokenRecord[]
  /** False when there is no such token. */
  revoke (id: string): Promise<boolean>
  /** Those that were revoked themselves, and not with their makers. */
  revoked (): Pick<TokenRecord, 'id' | 'expires'>[]
}
export const TokenService = defineService<Tokens>('kernel.tokens')

/** A handler of a capability; the types of its arguments come from the declaration. */
export type CapabilityHandler = (input: never, call: CapabilityCall<never>) => unknown

/** The server of the capabilities of all plugins. */
export interface CapabilityServer {
  /** Adds a capability; returns what removes it. Throws an Error with every problem, a line each. */
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
  /** Registers all capabilities with the server, and later ones as they come; returns what ends that. */
  serve (server: CapabilityServer): () => void
  /** Install id of another node that says it serves a capability; null if none does. */
  elsewhere (capabilityId: string): string | null
}
export const CapabilityHostService = defineService<CapabilityHost>('kernel.capabilities')

/** A started plugin as diagnostics show it. */
export interface PluginReport { name: string, version: string, summary: string, effects: string[] }

/** A tried address of another node. */
export interface DialReport {
  readonly address: string
  /** Whose address it is; null for a hint at which nobody answered yet. */
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
  /** Messages of no shape that this node knows, since it started. */
  readonly dropped: number
}

/** The kernel's diagnostics. */
export interface Inspection {
  plugins (): PluginReport[]
  warnings (): string[]
  /** The URL clients use, or null before listening. */
  url (): string | null
  openCommands (): number
  openStreams (): number
  /** Every address that was dialled for a member, with the state of the attempts. */
  dials (): readonly DialReport[]
  /** The links to other nodes: bytes and frames both ways, and what waits to be sent. */
  links (): readonly LinkReport[]
  /** The settings in force as GET /config shows them: each with its origin, secrets masked. */
  config (): { file: string, entries: unknown[] }
}
export const InspectionService = defineService<Inspection>('kernel.inspection')

/** The pressure of gossip, for diagnostics. */
export const GossipService = defineService<{ counters (): GossipCounters }>('kernel.gossip')

/** A live connection of a node, as it says itself. */
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
  /** False where the node publishes no readings, memory among them. */
  readonly readings?: false
  readonly [key: string]: unknown
}

export interface StateReader {
  /** The object that GET /state answers an operator with. */
  read (): Promise<Record<string, unknown>>
  /** The newest report of every node, this one first. Its own readings are at most 2 s old. */
  nodes (): readonly NodeReport[]
  /**
   * Calls `fn` after a change, once for a burst of them. Readings, such as memory and the progress of
   * transfers, change without a sign. Returns what ends that.
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
/** `events` is for operators only; all else is cut for other callers as GET /state is. */
export interface PastState { readonly events: unknown, readonly [key: string]: unknown }
export const StateHistoryService = defineService<StateHistory>('kernel.state-history')

export interface LocalRequest {
  readonly path: string
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly body?: object
  /** Accept header, for routes with several media types. */
  readonly accept?: string
  /** In whose name: it is refused whatever its caller is refused. */
  readonly caller: Caller
  readonly signal: AbortSignal
}

/** The answer: whole, as it would be sent. */
export interface LocalResponse { readonly status: number, readonly text: string }

/** An answer in progress; aborting the signal of its question ends its work. */
export interface OwnStream {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly bytes: Readable
}

/** This node's own API without a socket: every check of a request from outside, but for the credential. */
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
   * Writes to svc.yaml what is in force already, by dotted path: no restart is needed for it. Throws
   * `invalid_request`, `missing_grant`, and what the disk says.
   */
  keep (path: string, value: unknown, caller: Caller): void
}
export const ConfigService = defineService<ConfigKeeper>('kernel.config')

export interface Declarations {
  /** The kernel's manifest first, then those of the plugins that are on. */
  readonly manifests: readonly Manifest[]
  /** Those of the plugins that are off. */
  readonly off: readonly Manifest[]
  /** The same with the kernel's verbs, routes and settings, as the command line has it. */
  whole (): Promise<DeclarationSet>
}
export const DeclarationService = defineService<Declarations>('kernel.declarations')

/** The newest lines of this node's log and of its runners' output, in memory. */
export const LogRingService = defineService<LogRing>('kernel.log-ring')
