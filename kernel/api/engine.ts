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
  /** Maximum number of threads for one native call. */
  threads: number
  /** Context length of the instance in tokens; the model's default when absent. */
  contextLength?: number
  /** Parallel contexts; when absent, the engine fits as many as it can into a small cache. */
  slots?: number
  /** Settings of the plugin that owns the engine, passed through unchanged. */
  options: Record<string, unknown>
}

/** Functions that the runner process offers its engine. */
export interface EngineEnv {
  progress (loaded: number, total: number): void
  /**
   * Announces a blocking call and its size (in units that the engine defines) to the node, then runs it. The
   * node treats the call as overdue after max(10 s, 10 x measured time per unit x units). Keep calls below
   * about one second.
   */
  work<T> (label: string, units: number, call: () => T | Promise<T>): Promise<T>
  log (level: 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void
}

/** Attributes of a span: short strings and numbers; never a prompt, an answer or a secret. */
export type SpanAttrs = Readonly<Record<string, string | number | boolean>>

/** Records a step that repeats often. Times are ms on the clock of the `SpanSink` that made the series. */
export interface SpanSeries { add (startMs: number, endMs: number): void }

/** A traced request or a part of it; collects its spans. */
export interface SpanSink {
  /** Monotonic milliseconds on the clock that span times use. */
  now (): number
  span (name: string, category: string, startMs: number, endMs: number, attrs?: SpanAttrs): void
  /** For very frequent steps such as tokens. Reuse the returned series: its `add` only stores two numbers. */
  series (name: string, category: string): SpanSeries
  /** Opens a child span; it begins now unless `startMs` is given. */
  open (name: string, category: string, startMs?: number): OpenSpan
}

export interface OpenSpan extends SpanSink {
  /** Ends now unless `endMs` is given. */
  end (attrs?: SpanAttrs, endMs?: number): void
}

/**
 * One request to the engine. `kind` is a task named in the model card, e.g. `tts`; `trace` collects spans.
 */
export interface EngineTask {
  kind: string
  payload: Record<string, unknown>
  trace?: SpanSink | undefined
  /**
   * Bytes that the client sends while the task runs; an engine that reads slowly slows the client. Read them
   * once. Throws an error with a reason if the client breaks off or the task is cancelled.
   */
  input?: AsyncIterable<Uint8Array> | undefined
}

/**
 * One piece of an answer: JSON, and raw bytes that are sent alongside it. `timing` is the position of the
 * sound or picture in `media` within the whole answer.
 */
export interface EngineChunk {
  payload: Record<string, unknown>
  media?: Uint8Array
  timing?: { timestampSeconds: number, durationSeconds: number }
}

export interface EngineSession {
  /** Runs one small inference; the runner calls it once, within the warmup deadline. */
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
 * A refusal or failure that the engine explains. `reason` is an error reason in snake_case; the client gets
 * `details` unchanged. Any other thrown value becomes `provider_error` and is logged.
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

/** Memory that an engine needs in addition to the model weights. */
export interface MemoryTraits {
  /** Estimated bytes per byte of weights, without cache, for cards without `memory`; 1.30 when absent. */
  readonly overhead?: number | undefined
  /** Bytes of the engine process including libraries; 256 MiB when absent. */
  readonly fixedBytes?: number | undefined
  /** GPU bytes in use before a model is loaded; `fixedBytes` when absent. */
  readonly gpuBytes?: number | undefined
  /** Tokens per batch; 512 when absent. */
  readonly batchTokens?: number | undefined
  /** Bytes per token of the vocabulary, without logits; 160 when absent. */
  readonly vocabularyBytes?: number | undefined
  /** True if the engine keeps cached prompts and context checkpoints in addition to its contexts. */
  readonly keepsPrompts?: boolean | undefined
}

export interface EngineDecl extends MemoryTraits {
  readonly summary: string
  /** file: URL of the engine module (default export: EngineModule). */
  readonly module: string
  /** Backends the engine supports, best first. */
  readonly backends: readonly string[]
  /** Message for a card that asks for a backend the engine lacks. */
  readonly backendsWhy?: string
  /** file: URL of the module that creates cards for the engine's models (default export: a `CardReader`). */
  readonly cards?: string
  /** Module that helps `svc` verbs with the engine's models; its default export is an `EngineHelp`. */
  readonly help?: () => Promise<{ default: unknown }>
  /** Why a card that names the engine does not run on it; null if it does. */
  readonly refuses?: (card: ModelCard) => string | null
  /** True if the engine drives an external binary, which `SVC_<ENGINE>_SERVER_BIN` overrides. */
  readonly external?: boolean
  readonly program?: ProgramDecl
  /** True if the engine's program listens on a port of loopback. */
  readonly loopback?: boolean
  readonly batch?: number
  /** Maximum number of parallel contexts, for the placement planner and for runners. */
  readonly slots?: { readonly cpu: number, readonly gpu: number }
  /** True if several nodes can run one model together, each with a part of it. */
  readonly multiNode?: boolean
  /** `instanceMeta` of multi-node placements, e.g. `LlamaRpc`; the placement plugin's default when absent. */
  readonly meta?: string
  /** Binary for nodes that lend memory; `SVC_<NAME>_SERVER_BIN` (NAME without `-server`) overrides it. */
  readonly donor?: string
  /** True if the engine supports tensor parallelism: each node holds a share of every layer. */
  readonly tensor?: boolean
  /** True if the shares may be uneven, so any number of nodes can take part. */
  readonly unevenTensor?: boolean
  /** True if the engine splits layers only, so other shardings of several nodes mean tensor parallelism. */
  readonly onlyTensor?: boolean
  /** True if the engine uses all GPUs and spills over to the CPU; otherwise it uses the first GPU only. */
  readonly manyDevices?: boolean
}

/**
 * The binary that an engine drives. If no variable names it, PATH lacks it and no build is installed, a node
 * uses the library `otherwise` instead; without that library, the node does not offer the engine.
 */
export interface ProgramDecl {
  /** File name in PATH and in a build. */
  readonly name: string
  readonly builds: string
  /** How it is installed, as a sentence, if not by `svc engine add`. */
  readonly install?: string
  readonly otherwise?: LibraryDecl
}

/** A library in an npm package that replaces part of the program, inside the runner process. */
export interface LibraryDecl extends MemoryTraits {
  readonly name: string
  /** file: URL of the engine module that loads it. */
  readonly module: string
  readonly backends: readonly string[]
  /** The package's GPU backend, by platform and architecture. */
  readonly gpus?: Readonly<Record<string, string>>
  /** Package names by platform and architecture, such as `linux-x64`. */
  readonly packages: Readonly<Record<string, string>>
  /** File roles that the library cannot use, each with the reason. */
  readonly without: Readonly<Record<string, string>>
}

/** A model that ships inside a package: loaded in place from `folder` (file: URL) with its `card.yaml`. */
export interface BundledModelDecl { readonly folder: string }
