import { closedObject, type FromSchema, type JsonSchema } from './schema.js'
import type { StreamHead, StreamWriter } from './reply.js'
import type { Clock } from './clock.js'
import type { BundledModelDecl, EngineDecl } from './engine.js'
import type { Logger, NodeInfo } from './node.js'
import type { ErrorDecl, SvcError } from './errors.js'
import type { Trace } from '../observe/tracer.js'
import type { RouteDecl, RouteSocket } from './route.js'
import type { ServiceRef } from './service.js'
export { Reply } from './reply.js'
export type { StreamHead, StreamWriter } from './reply.js'

export type { ErrorDecl } from './errors.js'
export type { Logger, NodeInfo } from './node.js'
export type { RouteDecl, RouteSocket } from './route.js'
export { defineService } from './service.js'
export type { ServiceRef } from './service.js'

export type Refs = Readonly<Record<string, ServiceRef<unknown>>>
type Instance<R> = R extends ServiceRef<infer T> ? T : never

export interface Caller {
  /** Caller identity in logs and for fair scheduling: `local`, `operator`, a token id or a device id. */
  readonly id: string
  readonly mode: 'direct' | 'paired' | 'relay'
  readonly authorities: ReadonlySet<string>
  /** Ids of the only models that the caller may use; undefined if there is no limit. */
  readonly models?: readonly string[] | undefined
}

/** Whether a caller may use a model, given its id. */
export const mayUse = ({ models }: Pick<Caller, 'models'>, modelId: string): boolean =>
  models?.includes(modelId) !== false

export interface ConflictDecl {
  readonly severity: 'warn' | 'error'
  readonly meaning: string
  readonly remediation: string
}

export interface EventDecl {
  /** `durable` events are stored in the event log; `telemetry` events may be lost. */
  readonly plane: 'durable' | 'telemetry'
  readonly summary: string
  readonly payload: JsonSchema
}

/** Declares a durable event whose payload has exactly these properties, all required. */
export function durableEvent<const P extends Record<string, unknown>> (summary: string, properties: P) {
  return { plane: 'durable', summary, payload: closedObject(properties) } as const
}

export interface SectionDecl {
  /** Writer of the section: the elected master (control document), or each node (its observed document). */
  readonly writer: 'master' | 'node'
  readonly summary: string
  /** Master sections only: false if a new session begins with an empty section. */
  readonly carry?: boolean
  readonly value: JsonSchema
}

/** A cluster-wide decision: any node may request it, and the master carries it out once. */
export interface CommandDecl {
  readonly summary: string
  readonly args: JsonSchema
  readonly result?: JsonSchema
}

export type IoMode = 'unary' | 'server_streaming' | 'client_streaming' | 'bidirectional'

export interface CapabilityDecl {
  readonly id: string
  readonly version: string
  readonly title: string
  readonly description: string
  readonly io_mode: IoMode
  readonly input_schema: JsonSchema
  /** Additional input limits, for capabilities whose published schema may not change. */
  readonly input_bounds?: JsonSchema
  readonly output_schema?: JsonSchema | null
  readonly input_chunk_schema?: JsonSchema | null
  readonly output_chunk_schema?: JsonSchema | null
  readonly annotations: Readonly<Record<string, string>>
  /** Media type of the binary data that accompanies chunks; a client that accepts it gets only that data. */
  readonly media_type?: string
  /** Parallel calls per node for engines that batch calls; ignored if below `limits.calls_at_once`. */
  readonly calls_at_once?: number
}

/** The headings in `svc help`, in display order. */
export const verbHeadings =
  ['Use models', 'Keep models', 'Run a cluster', 'Watch it', 'Set it up', 'Of your plugins'] as const

/** A command-line verb; `load` is called only when the verb is used. */
export interface VerbDecl {
  readonly summary: string
  /** Heading in `svc help`; the last one when absent. A group appears under the heading of its first verb. */
  readonly heading?: typeof verbHeadings[number]
  /** Arguments in commander's notation, e.g. `<text> [model]`. */
  readonly args?: string
  readonly options?: readonly (readonly [flags: string, description: string])[]
  readonly examples?: readonly string[]
  readonly explainsCommands?: boolean
  /** True to pass undeclared options to the verb, after its arguments. */
  readonly open?: boolean
  /** True if the verb works on local files; the command line then refuses the address of another node. */
  readonly local?: boolean
  readonly load: () => Promise<{ default: unknown }>
}

/** A check for `svc doctor`. The module is loaded only then; its default export is a `Checker`. */
export interface CheckDecl { readonly summary: string, readonly load: () => Promise<{ default: unknown }> }

/**
 * A read-only tool for the steward. `load` is called on first use; the module's default
 * export is a `Tool` (kernel/cli/tool.ts).
 */
export interface ToolDecl {
  /** One sentence from which a language model decides when to use the tool. */
  readonly summary: string
  /** Schema of its arguments (type object, additionalProperties false). */
  readonly args: JsonSchema
  /** If present, its facts with these arguments are findings (GET /v1/findings); past ones have ended. */
  readonly finds?: { readonly past: boolean, readonly args?: Readonly<Record<string, unknown>> }
  readonly load: () => Promise<{ default: unknown }>
}

/** Everything a plugin declares: data without side effects. */
export interface Manifest {
  /** kebab-case, unique; also the key under `plugins` in svc.yaml and the name in logs. */
  readonly name: string
  readonly version: string
  /** Semver range of the kernel interface that the plugin supports. */
  readonly kernel: string
  readonly summary: string
  /** Required plugins, optionally as `name@range`. */
  readonly requires?: readonly string[]
  /** Plugins that must start before this one, if they are present. */
  readonly after?: readonly string[]
  /** Schema of `plugins.<name>` in svc.yaml (type object, additionalProperties false). */
  readonly config?: JsonSchema
  /** Top-level svc.yaml keys this plugin owns, with their schemas. */
  readonly settings?: Readonly<Record<string, JsonSchema>>
  /** True: the node restarts the plugin to apply a change of its `settings`; false: the node must restart. */
  readonly reloads?: boolean
  readonly consumes?: Refs
  /**
   * Services that come and go with their plugins while the node runs. Read one from `ctx.deps` at each use; a
   * plugin that reads it in `start` sees a change only after a restart of the node.
   */
  readonly consumesOptional?: Refs
  readonly provides?: Refs
  readonly authorities?: Readonly<Record<string, string>>
  readonly routes?: Readonly<Record<string, RouteDecl>>
  readonly events?: Readonly<Record<string, EventDecl>>
  readonly errors?: Readonly<Record<string, ErrorDecl>>
  readonly conflicts?: Readonly<Record<string, ConflictDecl>>
  readonly capabilities?: Readonly<Record<string, CapabilityDecl>>
  readonly sections?: Readonly<Record<string, SectionDecl>>
  /** Commands that may write to `master` sections. */
  readonly commands?: Readonly<Record<string, CommandDecl>>
  /** Top-level keys this plugin adds to GET /state, each with a one-line description. */
  readonly state?: Readonly<Record<string, string>>
  /** Fields in GET /state that hold addresses or paths; null for callers without `operator`. */
  readonly stateWhereabouts?: readonly string[]
  /** Keys of GET /state that change constantly: replicas get them every 2 s, `svc state --follow` never. */
  readonly stateReadings?: readonly string[]
  readonly engines?: Readonly<Record<string, EngineDecl>>
  readonly models?: Readonly<Record<string, BundledModelDecl>>
  readonly verbs?: Readonly<Record<string, VerbDecl>>
  readonly checks?: Readonly<Record<string, CheckDecl>>
  /** Read-only tools for the steward, by tool name (snake_case, unique over all plugins). */
  readonly tools?: Readonly<Record<string, ToolDecl>>
  /** Sections in the output of `svc status`; the module's default export is a `StatusPart`. */
  readonly status?: Readonly<Record<string, CheckDecl>>
  /** Signers for command-line requests without a token; the default export is a `CredentialHelper`. */
  readonly credentials?: Readonly<Record<string, CheckDecl>>
  /** Cluster data to store on a paired device; the module's default export is a `DeviceNews`. */
  readonly deviceNews?: Readonly<Record<string, CheckDecl>>
  /** Environment variables that do not override a setting, each with its meaning. */
  readonly variables?: Readonly<Record<string, string>>
  /**
   * Settings for the nodes of `svc dev`, by dotted path. The first node gets the value, `{home}` replaced by
   * its home directory; the other nodes, and the first if the value is null, get the default.
   */
  readonly devSettings?: Readonly<Record<string, string | null>>
  /**
   * Example lines that `svc up` prints. Placeholders: `{url}` is the node's URL, `{svc}` the program,
   * `{home}` an option for a non-default home, `{curl}` curl with the authority, `{token}` a curl header
   * (lines with `{token}` are omitted if the node listens on loopback only).
   */
  readonly firstSteps?: readonly string[]
}

type Field<M, K extends string> = M extends { readonly [P in K]: infer V } ? V : Record<never, never>
type Keys<M, K extends string> = Extract<keyof Field<M, K>, string>
type SchemaAt<D, K extends string, Filled = false> =
  D extends { readonly [P in K]: infer S } ? FromSchema<S, Filled> : unknown

/** Input of a route handler. The kernel has validated it against the route's schemas, but not beyond that. */
export interface RouteRequest<D = unknown> {
  readonly params: SchemaAt<D, 'params'>
  readonly query: SchemaAt<D, 'query', true>
  readonly body: SchemaAt<D, 'body'>
  /**
   * The body's bytes if its media type is one of the route's `uploads`, and `body` is then undefined. Throws
   * if the client breaks off.
   */
  readonly upload?: AsyncIterable<Uint8Array> | null | undefined
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly caller: Caller
  readonly requestId: string
  /** The client's address; behind a trusted proxy, the address that the proxy reports. */
  readonly remoteAddress: string
  /** Install id of the node that forwarded the request; null for a direct request. */
  readonly member: string | null
  /** Arrival time in monotonic milliseconds; recorded only while requests are traced. */
  readonly arrivedMs?: number | undefined
  /** Aborts when the client goes away, the deadline passes or the node stops. */
  readonly signal: AbortSignal
  /** Adds details to the audit record; ignored on routes that are not audited. Never pass a secret. */
  note (detail: Readonly<Record<string, unknown>>): void
  /** Takes over the response as a stream; the handler's return value is then ignored. */
  open (head: StreamHead): StreamWriter
}

/** The request that opened a WebSocket; its signal aborts when the plugin or the node stops. */
export type SocketRequest<D = unknown> = Pick<RouteRequest, 'caller' | 'signal'> &
  (D extends { readonly query: unknown } ? Pick<RouteRequest<D>, 'query'> : unknown)

/** Raw bytes that accompany a capability's chunk. */
export interface ChunkMedia {
  bytes: Uint8Array
  mediaType: string
  codec: string
  sampleRate: number
  channels: number
  timestampSeconds: number
  durationSeconds: number
}

/** `payload` matches the capability's `output_chunk_schema`. */
export interface CapabilityChunk<T = Record<string, unknown>> { payload: T, media?: ChunkMedia }

/** A chunk from the client: `payload` matches the capability's `input_chunk_schema`. */
export interface ClientChunk<C = unknown> { payload: C, media?: Uint8Array }

export interface CapabilityCall<C = unknown> {
  readonly callId: string
  readonly commandId: string
  readonly caller: Caller
  /** Aborts on cancel, disconnect, deadline, session change or shutdown. */
  readonly signal: AbortSignal
  /** True if a lost call may be retried once: the client allows it and no stream byte has been sent. */
  readonly retry: boolean
  /** True if the caller chose this node, so no other node may do the work. */
  readonly pinned?: boolean
  /** Nodes of svc that the request has passed on its way to this cluster, as the client's header says. */
  readonly hops?: string | undefined
  /**
   * Chunks from the client (client_streaming and bidirectional only; otherwise empty). A handler that reads
   * slowly slows the client. Read `chunks` or `input`, not both.
   */
  readonly chunks: AsyncIterable<ClientChunk<C>>
  /** The payloads of `chunks`. */
  readonly input: AsyncIterable<C>
  /** Sets a response header, e.g. `x-svc-task-id`; has an effect only before the first chunk. */
  setHeader (name: string, value: string): void
  readonly trace?: Trace | undefined
}

type CapabilityHandler<D> = D extends { io_mode: 'unary' | 'client_streaming' }
  ? (input: SchemaAt<D, 'input_schema'>, call: CapabilityCall<SchemaAt<D, 'input_chunk_schema'>>) =>
    Promise<SchemaAt<D, 'output_schema'>>
  : (input: SchemaAt<D, 'input_schema'>, call: CapabilityCall<SchemaAt<D, 'input_chunk_schema'>>) =>
    AsyncIterable<CapabilityChunk<SchemaAt<D, 'output_chunk_schema'>>>

/** Typed access to one document section. Values are plain JSON, validated against the section's schema. */
export interface Section<T> {
  /** Writes one key. In a master section, throws `not_master` except in the plugin's commands. */
  put (key: string, value: T): void
  remove (key: string): void
  get (key: string, nodeId?: string): T | undefined
  /** All entries; for node sections, the entries of every known node. */
  entries (): Iterable<{ nodeId: string, key: string, value: T }>
  /** Calls `fn` after each change, local or remote; returns a function that unregisters it. */
  observe (fn: () => void): () => void
}

type Consumed<M> = { readonly [K in keyof Field<M, 'consumes'>]: Instance<Field<M, 'consumes'>[K]> }
type ConsumedOptional<M> = {
  readonly [K in keyof Field<M, 'consumesOptional'>]: Instance<Field<M, 'consumesOptional'>[K]> | undefined
}
type Sections<M> = {
  readonly [K in Keys<M, 'sections'>]: Section<SchemaAt<Field<M, 'sections'>[K], 'value'>>
}

export interface Context<M extends Manifest = Manifest> {
  readonly config: SchemaAt<M, 'config', true>
  readonly settings: { readonly [K in Keys<M, 'settings'>]: FromSchema<Field<M, 'settings'>[K], true> }
  readonly deps: Consumed<M> & ConsumedOptional<M>
  readonly log: Logger
  readonly clock: Clock
  readonly node: NodeInfo
  readonly sections: Sections<M>
  /**
   * Runs one of this plugin's commands on the master; resolves once the cluster has stored the result. Calls
   * with the same `id` run it once. Throws the handler's error, `no_master`, `no_quorum`, `session_changed`.
   */
  command<K extends Keys<M, 'commands'>> (
    name: K, args: SchemaAt<Field<M, 'commands'>[K], 'args'>, id?: string
  ): Promise<SchemaAt<Field<M, 'commands'>[K], 'result'>>
  emit<K extends Keys<M, 'events'>> (kind: K, payload: SchemaAt<Field<M, 'events'>[K], 'payload'>): void
  /** Listens to an event of any plugin. */
  on (kind: string, fn: (payload: Record<string, unknown>) => void): void
  /** Raises a declared conflict; `observed` describes how reality differs from the declaration. */
  raise (code: Keys<M, 'conflicts'>, observed: string): void
  clear (code: Keys<M, 'conflicts'>): void
  error (reason: Keys<M, 'errors'>, message?: string, details?: Record<string, unknown>): SvcError
  /** Registers something to undo when the plugin stops. */
  effect (label: string, dispose: () => void | Promise<void>): void
  every (label: string, ms: number, fn: () => void): void
  /**
   * Returns a function that checks external values: it returns null, or a sentence that names the invalid
   * field. The schema is compiled on first use.
   */
  checker (schema: JsonSchema): (value: unknown) => string | null
  /** Shows (or hides) a tag under `nodeCapabilities` in /state. */
  advertise (tag: string, on: boolean): void
  /** A named readiness check for GET /readyz; `model` is the query parameter, when given. */
  readiness (name: string, check: (model?: string) => ReadyCheck | Promise<ReadyCheck>): void
}

/** `ok: null` means that the check does not apply to this query. */
export interface ReadyCheck { ok: boolean | null, detail: string }

type RouteHandler<D> = D extends { readonly socket: true }
  ? (ws: RouteSocket, request: SocketRequest<D>) => unknown
  : (req: RouteRequest<D>) => unknown
/** The node that sent a command. */
export interface CommandSender {
  readonly installId: string
  /** The subset of authorities that it may vouch for. */
  vouched (authorities: readonly string[]): string[]
}

type RouteHandlers<M> = { [K in Keys<M, 'routes'>]: RouteHandler<Field<M, 'routes'>[K]> }
type Invokers<M> = { [K in Keys<M, 'capabilities'>]: CapabilityHandler<Field<M, 'capabilities'>[K]> }
type Commanders<M> = {
  [K in Keys<M, 'commands'>]: (args: SchemaAt<Field<M, 'commands'>[K], 'args'>, sender: CommandSender) =>
  SchemaAt<Field<M, 'commands'>[K], 'result'>
}
type Provided<M> = { [K in keyof Field<M, 'provides'>]: Instance<Field<M, 'provides'>[K]> }
type When<M, K extends keyof Manifest, Name extends string, T> =
  M extends { readonly [P in K]: unknown } ? { readonly [P in Name]: T } : { readonly [P in Name]?: never }

/** The result of `start`: one part for each thing that the manifest declares, and no others. */
export type PluginParts<M> =
  When<M, 'routes', 'routes', RouteHandlers<M>> &
  When<M, 'capabilities', 'invoke', Invokers<M>> &
  When<M, 'commands', 'commands', Commanders<M>> &
  When<M, 'provides', 'services', Provided<M>> &
  When<M, 'state', 'state', { [K in Keys<M, 'state'>]: (caller: Caller, base?: unknown) => unknown }>

export interface Plugin {
  readonly manifest: Manifest
  /** `host` is the opened cluster; only the cluster plugin gets it. */
  readonly start: (ctx: Context<never>, host?: unknown) => unknown
  /** Bundled plugins only: lists the problems in another plugin's manifest that concern this plugin. */
  readonly refusals?: (manifest: Manifest) => Promise<string[]>
}

/** Declares a plugin. `start` wires it up and returns at once; slow work continues in the background. */
export function definePlugin<const M extends Manifest> (
  manifest: M, start: (ctx: Context<M>) => PluginParts<M> | Promise<PluginParts<M>>
): Plugin {
  return { manifest, start }
}

/** Everything that svc declares: names with a fixed meaning, settings, verbs and routes. */
export interface DeclarationSet {
  readonly manifests: readonly Manifest[]
  readonly settings: Readonly<Record<string, JsonSchema>>
  readonly verbs: Readonly<Record<string, Omit<VerbDecl, 'load'>>>
  readonly exitCodes: readonly (readonly [status: number, meaning: string])[]
}

/** The part of a plugin that declares settings. */
export interface ConfigOwner {
  readonly name: string
  /** Schema of `plugins.<name>`. */
  readonly config?: JsonSchema
  readonly settings?: Readonly<Record<string, JsonSchema>>
  readonly variables?: Readonly<Record<string, string>>
  /** False for a third-party plugin, which svc.yaml names by `module`. */
  readonly bundled: boolean
}
