import type { IncomingHttpHeaders } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { defineService } from './plugin.js'
import type { GossipCounters } from './gossip.js'
import type { LogRing } from '../observe/log-ring.js'
import type { SvcError } from './errors.js'
import type { Caller, CapabilityCall, CapabilityDecl, DeclarationSet, Manifest } from './plugin.js'

export interface Command {
  readonly commandId: string
  readonly caller: Caller
  /** Ends the command; its stream ends with the given reason. */
  abort (reason: 'cancelled' | 'session_changed' | 'shutting_down'): void
}

/** Tracks every open command on this node, so that it can be cancelled, drained or ended with its session. */
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
  /** Calls `fn` after a new session begins, and after the master is lost. */
  onChange (fn: () => void): () => void
}
export const SessionService = defineService<Session>('kernel.session')

export interface NodeView {
  /** Node id of the current or last process; the install id before the first start. */
  readonly nodeId: string
  readonly installId: string
  readonly name: string
  readonly self: boolean
  readonly live: boolean
  /** True if the node has announced that it will stop and takes no new work. */
  readonly leaving?: boolean
  readonly master: boolean
  readonly apiUrl: string | null
}

export interface MemberRequest {
  readonly method: string
  /** Path and query, as in the public API. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** A body of any media type instead of JSON, sent while it is read. */
  readonly upload?: { readonly type: string, readonly bytes: AsyncIterable<Uint8Array> }
  /** Caller on whose behalf the other node acts, with the authorities that this node may vouch for. */
  readonly caller: Caller
  /** Aborts the request, even while its answer is being read. */
  readonly signal?: AbortSignal
  readonly timeoutMs?: number
}

export interface MemberResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** The answer's bytes; destroying the stream ends the request at the other node. */
  readonly body: Readable
}

/** Sends small JSON messages to the same plugin on other nodes. */
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
  /** Finds a node by node id, install id or name; `local` is this node. */
  resolve (ref: string): NodeView | undefined
  /** Members that were admitted with a credential (or one created from it), or by a node. */
  admittedBy (id: string): { installId: string, name: string }[]
  /** Opens a channel. Messages are ordered per link and lost while it is down. `from` is an install id. */
  channel<T> (name: string, receive: (from: string, message: T) => unknown): Channel<T>
  /** Calls `fn` after a link to a node opens or closes. */
  onPeers (fn: (change: { installId: string, up: boolean }) => void): () => void
  /**
   * Marks a node live because another node forwarded its sign of life; it stays live while its link is open.
   */
  lives (nodeId: string): void
  /** Asks another node's API. Throws `unreachable`. */
  request (installId: string, request: MemberRequest): Promise<MemberResponse>
}
export const ClusterService = defineService<Cluster>('kernel.cluster')

/** Whether this node knows a master and reaches at least half of the members. */
export function inContact (
  { masterNodeId }: Pick<Session, 'masterNodeId'>, cluster: Pick<Cluster, 'nodes'>
): boolean {
  const nodes = cluster.nodes()
  return masterNodeId !== null && nodes.filter(({ live }) => live).length * 2 >= nodes.length
}

/** Gives the plugin that stores events access to every durable event from this node. */
export interface EventTap {
  /** All declared event kinds; complete once all plugins have started. */
  kinds (): Iterable<string>
  onDurable (fn: (event: { kind: string, payload: Record<string, unknown> }) => void): () => void
}
export const EventTapService = defineService<EventTap>('kernel.event-tap')

/** A stored token, not including its secret. Times are ISO-8601. */
export interface TokenRecord {
  id: string
  label: string
  authorities: string[]
  /** Ids of the only models that it may use; null if there is no limit. */
  models: string[] | null
  created: string
  expires: string | null
  lastUsedDay: string | null
  revoked: boolean
  /** Id of the caller that created the token; the token ends when its creator's credential ends. */
  by: string
}

/** `expiresAt`: null for the creator's own expiry; `models`: null for all of the creator's. */
export interface TokenOptions extends Pick<TokenRecord, 'label' | 'authorities'> {
  models?: string[] | null | undefined
  expiresAt: string | null
  by: Caller
}

export interface IssuedToken { token: string, record: TokenRecord }

export interface Tokens {
  /**
   * Makes a token with at most its creator's authorities, models and lifetime, without storing it. Only the
   * result contains the secret; `hash` is its SHA-256. Throws `invalid_request` for an unknown authority or a
   * later expiry, `missing_grant` and `model_not_allowed` for what the creator may not do itself.
   */
  issue (options: TokenOptions): IssuedToken & { hash: Buffer }
  /** Issues a token and stores it at this node. */
  create (options: TokenOptions): Promise<IssuedToken>
  /** The caller's id, then the id of the credential that created the caller's, and so on. */
  makers (callerId: string): string[]
  /** The tokens of this node, and those that plugins accept. */
  list (): TokenRecord[]
  /** Whether a caller's credential is still valid; a token's end also ends the tokens created with it. */
  stands (callerId: string): boolean
  /** Also takes the id of another scheme's token, see `CallerScheme.records`. False for an unknown id. */
  revoke (id: string): Promise<boolean>
  /** Tokens that were themselves revoked, without those that ended because their creator's was revoked. */
  revoked (): Pick<TokenRecord, 'id' | 'expires'>[]
}
export const TokenService = defineService<Tokens>('kernel.tokens')

/** A capability's handler; the types of its arguments come from the declaration. */
export type CapabilityHandler = (input: never, call: CapabilityCall<never>) => unknown

export interface CapabilityServer {
  /**
   * Adds a capability; returns a function that removes it. Throws an Error with all problems, one per line.
   */
  register (owner: string, decl: CapabilityDecl, handler: CapabilityHandler): () => void
  /** Ends a plugin's open calls, each with its own error from `why`; resolves when all have ended. */
  end (owner: string, why: () => SvcError): Promise<void>
}

/** Call limits from `limits` in svc.yaml; stream limits are in bytes and ms. */
export interface CallLimits {
  concurrency: number
  queue: number
  streamBytes: number
  streamStallMs: number
  mediaBytes: number
  mediaStallMs: number
}

/** Connects the capability plugin, which serves calls, with the capabilities of all plugins. */
export interface CapabilityHost {
  readonly limits: Partial<CallLimits>
  /**
   * Registers current and future capabilities with the server; returns a function that stops
   * the registration.
   */
  serve (server: CapabilityServer): () => void
  /** Install id of another node that offers a capability; null if none does. */
  elsewhere (capabilityId: string): string | null
}
export const CapabilityHostService = defineService<CapabilityHost>('kernel.capabilities')

export interface PluginReport { name: string, version: string, summary: string, effects: string[] }

/** An address of another node that this node dials. */
export interface DialReport {
  readonly address: string
  /** The node at that address; null if only the address is known and it has not answered yet. */
  readonly installId: string | null
  readonly state: 'connected' | 'waiting' | 'dialling'
  /** Why the newest attempt failed: `refused`, `timeout`, `wrong_key`... */
  readonly reason: string | null
  /** Failed attempts since the last success. */
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
  /** Messages dropped since the link opened because their format was unknown. */
  readonly dropped: number
}

export interface Inspection {
  plugins (): PluginReport[]
  warnings (): string[]
  /** Base URL for clients; null until the node is listening. */
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

/** A live connection as reported by a node. */
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

/** A node's report on its resources for models; null for unknown fields. */
export interface NodeReport {
  readonly view: NodeView
  readonly memory: { readonly ramTotal: Bytes, readonly ramAvailable: Bytes } | null
  /** `accelerators`: all GPUs that programs on this node can use. */
  readonly system: { readonly accelerators: readonly GpuMemory[] } | null
  readonly resources: NodeResources | null
  readonly links: readonly LinkFact[]
}

/** A node's part of `nodeResources` in /state; plugins may add to it. */
export interface NodeResources {
  readonly backends: readonly string[]
  /** Only `full` nodes run models. */
  readonly participation: 'full' | 'management'
  /** False if the node publishes no readings such as free memory. */
  readonly readings?: false
  readonly [key: string]: unknown
}

export interface StateReader {
  /** The response to GET /state for an operator. */
  read (): Promise<Record<string, unknown>>
  /** The newest report from every node, this node first. This node's readings are at most 2 s old. */
  nodes (): readonly NodeReport[]
  /**
   * Calls `fn` once per burst of changes, ignoring changes in readings such as memory and transfer
   * progress. Returns a function that unregisters `fn`.
   */
  onChange (fn: () => void): () => void
}
export const StateService = defineService<StateReader>('kernel.state')

export interface StateHistory {
  /**
   * The state at an event log index or a time (ISO-8601), as GET /state?at= returns it to an operator.
   * Throws `invalid_request` naming `at`, `not_recorded`, `not_ready`.
   */
  at (moment: string): Promise<PastState>
}
/** `events` is for operators only; GET /state's filter applies to all other keys. */
export interface PastState { readonly events: unknown, readonly [key: string]: unknown }
export const StateHistoryService = defineService<StateHistory>('kernel.state-history')

export interface LocalRequest {
  readonly path: string
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly body?: object
  /** Accept header, for routes with several media types. */
  readonly accept?: string
  /** The caller whose authorities apply to the request. */
  readonly caller: Caller
  readonly signal: AbortSignal
}

/** The complete answer with its body as text. */
export interface LocalResponse { readonly status: number, readonly text: string }

/** An answer that is still arriving; aborting the request's signal ends the work for it. */
export interface OwnStream {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly bytes: Readable
}

/** Calls this node's own API without a socket, on behalf of a caller that is already authenticated. */
export interface LocalApi {
  /** Throws the signal's reason if the signal aborts first. */
  ask (question: LocalRequest): Promise<LocalResponse>
  /** Resolves when the answer begins. Throws like `ask`. */
  open (question: LocalRequest): Promise<OwnStream>
}
export const OwnApiService = defineService<LocalApi>('kernel.own-api')

/** Serves the public API on connections that do not arrive at its port. */
export interface Listeners {
  /**
   * Serves HTTP/1.1 on a decrypted relay connection. The connection itself grants no authority: each request
   * needs a credential of `device`, which the handshake authenticated, limited to what relays may do.
   */
  accept (connection: Duplex, from: { device: string }): void
}
export const ListenerService = defineService<Listeners>('kernel.listeners')

export interface ConfigKeeper {
  /**
   * Writes a setting that is already in effect to svc.yaml, by dotted path, so no restart is needed. Throws
   * `invalid_request`, `missing_grant`, and file system errors.
   */
  keep (path: string, value: unknown, caller: Caller): void
}
export const ConfigService = defineService<ConfigKeeper>('kernel.config')

export interface Declarations {
  /** The kernel's manifest, then those of the enabled plugins. */
  readonly manifests: readonly Manifest[]
  /** Manifests of the disabled plugins. */
  readonly off: readonly Manifest[]
  /** All declarations including the kernel's verbs, routes and settings, as the command line sees them. */
  whole (): Promise<DeclarationSet>
}
export const DeclarationService = defineService<Declarations>('kernel.declarations')

export const LogRingService = defineService<LogRing>('kernel.log-ring')
