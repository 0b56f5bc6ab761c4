import type { ModelCard } from './card.js'

export { EventParser } from '../http/event-stream-parser.js'
export { ByteQueue } from './byte-queue.js'
export type { CacheType, CardFile, CardVoice, MemoryFacts, ModelCard } from './card.js'

/** The model for a runner to load; `directory` is absolute and read-only to the engine. */
export interface ModelSpec {
  card: ModelCard
  directory: string
  /** Execution backend: `cpu`, `cuda`, `rocm`, `vulkan`, `metal`, `webgpu`. */
  backend: string
  /** Threads one native call may use. */
  threads: number
  /** Context length of the instance, tokens; the default when absent. */
  contextLength?: number
  /** Parallel contexts; when absent, as many as make a small cache. */
  slots?: number
  /** `plugins.<owner>.…` options, passed through by the plugin that owns the engine. */
  options: Record<string, unknown>
}

/** Services of the runner process for its engine. */
export interface EngineEnv {
  progress (loaded: number, total: number): void
  /**
   * Runs one piece of blocking work, after announcing it to the node with its size in engine-defined units:
   * it is overdue after max(10 s, 10 x the measured time per unit x units). Keep one call under about a
   * second.
   */
  work<T> (label: string, units: number, call: () => T | Promise<T>): Promise<T>
  log (level: 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void
}

/** Facts of a span: short words and numbers; never a prompt, an answer or a secret. */
export type SpanAttrs = Readonly<Record<string, string | number | boolean>>

/** A repeated step. Times are milliseconds by the clock of its sink. */
export interface SpanSeries { add (startMs: number, endMs: number): void }

/** A traced request or a part of it; collects its spans. */
export interface SpanSink {
  /** Monotonic milliseconds, by the clock of the spans. */
  now (): number
  span (name: string, category: string, startMs: number, endMs: number, attrs?: SpanAttrs): void
  /** For very frequent steps, such as tokens. Get it once and keep it: `add` only stores numbers. */
  series (name: string, category: string): SpanSeries
  /** Opens a child span; it begins now unless `startMs` is given. */
  open (name: string, category: string, startMs?: number): OpenSpan
}

export interface OpenSpan extends SpanSink {
  /** Ends now unless `endMs` is given. */
  end (attrs?: SpanAttrs, endMs?: number): void
}

/**
 * One request for the engine. `kind` is a task of the card, e.g. `tts`; the engine adds its spans to `trace`.
 */
export interface EngineTask {
  kind: string
  payload: Record<string, unknown>
  trace?: SpanSink | undefined
}

/**
 * One piece of an answer: JSON, and raw bytes that never become JSON. `timing` is the position of the sound
 * or picture in `media` within the whole answer.
 */
export interface EngineChunk {
  payload: Record<string, unknown>
  media?: Uint8Array
  timing?: { timestampSeconds: number, durationSeconds: number }
}

export interface EngineSession {
  /** One real, small inference; the runner calls it once under the warmup deadline. */
  warmup (): Promise<void>
  /**
   * Serves one task. Checks the payload before the first chunk (throws EngineError). Ends early and
   * silently when `signal` aborts. The iterator is pulled only while the reader has credit.
   */
  run (task: EngineTask, signal: AbortSignal): AsyncIterable<EngineChunk>
  /** Facts found while loading (sample rate, voices…), shown in diagnostics. */
  info (): Record<string, unknown>
  close? (): Promise<void>
}

export interface EngineModule { load (spec: ModelSpec, env: EngineEnv): Promise<EngineSession> }

/**
 * A refusal or failure an engine explains. `reason` is a snake_case error reason; `details` reaches the
 * client as it is. Anything else thrown becomes `provider_error` and is logged.
 */
export class EngineError extends Error {
  readonly reason: string
  readonly details: Record<string, unknown>
  constructor (reason: string, message: string, details: Record<string, unknown> = {}) {
    super(message)
    this.name = 'EngineError'
    this.reason = reason
    this.details = details
  }
}

/** Memory that an engine needs besides the weights of a model. */
export interface MemoryTraits {
  /** Memory per byte of weights, without cache, for cards without `memory`; 1.30 when absent. */
  readonly overhead?: number | undefined
  /** Bytes of its process, with libraries; 256 MiB when absent. */
  readonly fixedBytes?: number | undefined
  /** Bytes on a GPU before a model is loaded; `fixedBytes` when absent. */
  readonly gpuBytes?: number | undefined
  /** Default: 512. */
  readonly batchTokens?: number | undefined
  /** True if it caches prompts, and checkpoints of contexts, besides the contexts. */
  readonly keepsPrompts?: boolean | undefined
}

export interface EngineDecl extends MemoryTraits {
  readonly summary: string
  /** file: URL of the engine module (default export: EngineModule). */
  readonly module: string
  /** Backends it can run on, best first. */
  readonly backends: readonly string[]
  /** The explanation for a card that asks for a backend it lacks. */
  readonly backendsWhy?: string
  /** file: URL of the module that makes cards of its models (default export: a `CardReader`). */
  readonly cards?: string
  /** For the command line; the default export is an `EngineHelp`. */
  readonly help?: () => Promise<{ default: unknown }>
  /** Why a card that names the engine does not run on it; null if it does. */
  readonly refuses?: (card: ModelCard) => string | null
  /** True when it drives an external binary, whose override is `SVC_<ENGINE>_SERVER_BIN`. */
  readonly external?: boolean
  readonly program?: ProgramDecl
  readonly batch?: number
  /** Most parallel contexts: placement plans their number, and a runner admits no more. */
  readonly slots?: { readonly cpu: number, readonly gpu: number }
  /** True if several nodes can run one model together, each a part. */
  readonly multiNode?: boolean
  /** `instance_meta` of such placements, defined by the placement plugin; its default when absent. */
  readonly meta?: string
  /** The binary for nodes that lend memory; overridden by `SVC_<NAME>_SERVER_BIN`, NAME without `-server`. */
  readonly donor?: string
  /** True if those parts may be shares of every layer (tensor parallelism). */
  readonly tensor?: boolean
  /** True if the shares may be uneven, so that any number of nodes can take part. */
  readonly unevenTensor?: boolean
  /** True if it uses all GPUs of a node, and the CPU for what they cannot hold; else the first GPU only. */
  readonly manyDevices?: boolean
}

/**
 * The binary that an engine drives. If no variable names one, PATH has none and no build is installed, a node
 * runs models on the library `otherwise`; without that, the node does not offer the engine.
 */
export interface ProgramDecl {
  /** File name in PATH and in a build. */
  readonly name: string
  readonly builds: string
  readonly otherwise?: LibraryDecl
}

/** A library in an npm package that does part of the program's work, inside the runner process. */
export interface LibraryDecl extends MemoryTraits {
  readonly name: string
  /** file: URL of the engine module that loads it. */
  readonly module: string
  readonly backends: readonly string[]
  /** The GPU backend of its package, by platform and architecture. */
  readonly gpus?: Readonly<Record<string, string>>
  /** Its packages by platform and architecture, as in `linux-x64`. */
  readonly packages: Readonly<Record<string, string>>
  /** The file roles that it cannot use, each with the reason. */
  readonly without: Readonly<Record<string, string>>
}

/** A model that ships inside a package: loaded in place from `folder` (file: URL) with its `card.yaml`. */
export interface BundledModelDecl { readonly folder: string }
