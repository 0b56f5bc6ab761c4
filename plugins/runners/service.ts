import { defineService, EngineError, SvcError, timed } from '../../kernel/index.js'
import { NOT_STARTED } from './process/errors.js'
import { withInput } from './process/input.js'
import { untilRouted } from './routing/wait.js'
import type { Bundle } from './cards/bundle.js'
import type { GangOffer } from './donors/role.js'
import type { Instance, InstanceFailure } from './instances/sections.js'
import type { ModelWait } from './language/chunks.js'
import type { Machine } from './machine/vitals.js'
import type {
  CapabilityCall, Caller, EngineChunk, EngineTask, Manifest, MemoryTraits, ModelCard, Trace
} from '../../kernel/index.js'

export type { Bundle, BundledModel, RegisteredEngine } from './cards/bundle.js'
export { placement } from './instances/sections.js'
export { errors as runnerErrors } from './declarations.js'
export { overrideVariable } from './machine/backends.js'
export type { ModelWait } from './language/chunks.js'
export type { Machine } from './machine/vitals.js'
export {
  whyLibraryCannot, BUILD_FILE, buildsFolder, buildsOf, buildText, findLibrary, findProgram, listsBackend,
  outputOf, readDevices
} from './machine/programs.js'
export type { GangOffer, GangPlan } from './donors/role.js'
export type { Build } from './machine/programs.js'
export { runtimeFiles } from './machine/runtimes.js'
export { ROOT, toSentSpan, SpanRecorder, SPANS_MAX } from './process/span-recorder.js'
export type { PlacedSpan } from './process/span-recorder.js'
export { bodyOf, changed, devicePartsOf, partOf, stateCard } from './instances/shapes.js'
export type {
  Instance, LlamaRpcInstance, PlacementIntent, RingInstance, Shard, ShardBody, StateCard
} from './instances/sections.js'

export const BundleService = defineService<Bundle>('runners.bundle')
export const MachineService = defineService<Machine>('runners.machine')

/** The programs of an engine that another plugin finds on this node. */
export interface OfferedDriver extends MemoryTraits {
  from: 'plugin'
  /** The program that is used by default, such as `vllm 0.32.0`. */
  words: string
  /** The names of all usable programs, by which a placement chooses one. */
  programs: readonly string[]
  /** GPUs as a program lists them; null if unknown. */
  devices: string[] | null
  /** Of the programs that can run one model on several nodes, how, by name. */
  gangs?: Readonly<Record<string, GangOffer>>
  /** Options of the engine for a model, or why no program, or not the chosen one, can run it. */
  options (card: ModelCard, chosen?: string): Record<string, unknown> | string
}

export interface Drivers {
  /** Sets how an engine's programs are found; null if there are none. Returns a function that undoes it. */
  offer (engine: string, find: () => OfferedDriver | null): () => void
}
export const DriverService = defineService<Drivers>('runners.drivers')

export const remediesIn = ({ manifests }: { manifests: readonly Pick<Manifest, 'errors'>[] }): Remedies =>
  Object.assign({}, ...manifests.map(({ errors }) => errors ?? {})) as Remedies
export type Remedies = Readonly<Partial<Record<string, { remedy: string }>>>

/** The remedy shown to a client that needs more parallel requests to a model. */
export const capacityRemedy = (modelId: string): string =>
  `Place one more instance: \`svc place ${modelId} --node NODE\`; or allow more at once: for a ` +
  'language model place it again with `--slots N` after `svc stop`, for others ' +
  '`svc config set plugins.runners.max_concurrent` and restart.'

/**
 * Why a runner, which waits without limit, cannot start yet. Times are ISO 8601. If `tries` and `nextTryAt`
 * are absent, it waits for an event instead of retrying.
 */
export interface StartBlocker {
  reason: string, message: string, since: string, tries?: number, nextTryAt?: string
}

export interface LoadProgress { layersLoaded: number, totalLayers: number }

/** A runner's lifecycle as a one-key object, e.g. `{"RunnerReady":{}}`. */
export type RunnerStatus =
  | { RunnerIdle: { waitsFor?: StartBlocker } } | { RunnerConnecting: Record<never, never> }
  | { RunnerConnected: Record<never, never> }
  | { RunnerLoading: LoadProgress }
  | { RunnerLoaded: Record<never, never> } | { RunnerWarmingUp: Record<never, never> }
  | { RunnerReady: Record<never, never> } | { RunnerRunning: Record<never, never> }
  | { RunnerShuttingDown: Record<never, never> } | { RunnerShutdown: Record<never, never> }
  | { RunnerFailed: { errorMessage: string, errorCode?: string, nextTryAt?: string } }

/** The runner statuses as text for people. */
export const STATUS_TEXT: Readonly<Record<string, string>> = {
  RunnerIdle: 'waiting for its runner',
  RunnerConnecting: 'connecting',
  RunnerConnected: 'connected',
  RunnerLoading: 'loading',
  RunnerLoaded: 'loaded',
  RunnerWarmingUp: 'warming up',
  RunnerReady: 'ready',
  RunnerRunning: 'ready',
  RunnerShuttingDown: 'shutting down',
  RunnerShutdown: 'shut down'
}

const MIB = 1024 ** 2

/** The progress of a load as text. Engines count bytes, or a few steps or layers. */
export function loadingText ({ layersLoaded, totalLayers }: LoadProgress): string {
  if (totalLayers < MIB) return `loading (${layersLoaded} of ${totalLayers})`
  return `loading ${Math.round(layersLoaded / MIB)} of ${Math.round(totalLayers / MIB)} MiB`
}

export interface FlightEntry { at: string, what: string }

/** Diagnostics of a runner. Times are in seconds. */
export interface RunnerReport {
  runnerId: string
  instanceId: string
  modelId: string
  pid: number | null
  processAlive: boolean
  exitCode: number | null
  statusKind: string
  secondsInStatus: number
  phase: string
  restarts: number
  flightRecorder: FlightEntry[]
  inProgressTasks: string[]
  completedTaskCount: number
  /** Seconds since the last successful real inference (warmup, request or canary); null if none. */
  secondsSinceForward: number | null
  rssBytes: number | null
  /** Bytes that placement counts for the runner; null if the runner could not be created. */
  estimatedBytes: number | null
  /** The runner's sandbox: namespaces, or limits on network, files or privileges; null if not running. */
  hold: 'namespaces' | 'network' | 'files' | 'privileges' | 'none' | null
  /** Slots for answers, slots in use, and tasks that wait for a slot. */
  slots: number
  slotsTaken: number
  waitingTasks: number
  /** Total seconds that tasks waited for a slot, and the number of tasks that got one. */
  waitedSeconds: number
  admittedTaskCount: number
  /** Chunks of all tasks so far: received, dropped, and now waiting for their reader. */
  chunks: { received: number, dropped: number, buffered: number }
}

export type TerminalStatus = 'Complete' | 'TimedOut' | 'Failed' | 'Cancelled'

/** A task that has ended, as this node sees it. It contains no part of the request or answer. */
export interface EndedTask {
  taskId: string
  /** Of the request, which may have several tasks, and of its caller. */
  commandId: string, callerId: string
  modelId: string
  capability: string
  status: TerminalStatus
  /** True if this node received the request. */
  entered: boolean
  served: boolean
  /** Seconds from routing to the end, and to the first token or sound; null if there was none. */
  seconds: number
  firstSeconds: number | null
  /** As the engine reports; null if it does not. If the task broke off, each chunk of text is one token. */
  tokens: { prompt: number, cached: number, generated: number } | null
  /** Length of the generated sound, and of the sound that was written down, seconds. */
  audioSeconds: number, heardSeconds: number
}

export interface RunnerWork {
  /** Calls `fn` when a task that this node received or served has ended. */
  onTask (fn: (task: EndedTask) => void): () => void
  /** Calls `fn` where a request enters, before each attempt to route it; `fn` refuses it by throwing. */
  onRequest (fn: (request: Pick<RouteQuery, 'caller' | 'commandId'>) => void): () => void
}
export const RunnerWorkService = defineService<RunnerWork>('runners.work')

/** A task and the runner that serves it, on any node. A virtual model has '' for instance and runner. */
export interface Route {
  taskId: string
  instanceId: string
  runnerId: string
  modelId: string
  /** The runner's node: its id since the current start, and its permanent install id. */
  nodeId: string
  installId: string
  trace?: Trace | undefined
  /** For another node: the request's hashes to remember, joined. */
  prefixes?: string
}

/**
 * A request to route. `signal` ends the wait for a model that is placed on demand; `pinned`: only a runner on
 * this node may serve it; `except`: instances that earlier attempts have lost; `tooShort`: the instance whose
 * context was too small, so only one with a larger context may serve it; `payload` and `session`: the task's
 * payload and the client's id of a conversation, which lead to the instance that has them in its cache.
 */
export interface RouteQuery {
  modelId: string
  capability: string
  commandId: string
  caller: Caller
  signal?: AbortSignal
  except?: readonly string[]
  tooShort?: string | undefined
  pinned?: boolean
  payload?: EngineTask['payload'] | undefined
  session?: string | undefined
  /** See `CapabilityCall`. */
  hops?: string | undefined
  trace?: Trace | undefined
  /** Idle seconds after which a model that is placed for this request is unloaded; null for never. */
  ttlSeconds?: number | null | undefined
  /** Called every few seconds while the request waits for its model. */
  onWait? (wait: ModelWait): void
}

/** A model whose requests a plugin answers itself. */
export interface VirtualModel {
  /** True if a model with files of the same name is used instead, such as one in the store. */
  yields?: boolean
  /** The model's card; undefined while the model is hidden. */
  card (): ModelCard | undefined
  /** The error for requests to the model; null while the model serves them. */
  refusal (): SvcError | null
  /**
   * Runs a task for `query.caller`, with the task and chunk formats of engines. Aborting the signal ends it.
   */
  open (task: EngineTask, query: RouteQuery, signal: AbortSignal): AsyncIterable<EngineChunk>
}

/** The data plane from any node to the runner that serves a model. */
export interface Runners {
  /**
   * Assigns a task id and picks a ready runner on any node: see `pick`. Throws
   * `no_instance` (details.brokenLink and details.remedy name the first broken link of the availability
   * chain): 503 while the model is placed or waits for a place, 404 if it is not placed.
   */
  route (query: RouteQuery): Promise<Route>
  /**
   * Runs the task. Chunks come only as the reader pulls; aborting the signal cancels the work in the engine.
   * Throws `instance_lost` if the runner or its node ends before the task, `overloaded` if the runner's queue
   * is full, and EngineError reasons unchanged.
   */
  open (route: Route, task: EngineTask, signal: AbortSignal): AsyncIterable<EngineChunk>
  /** The card of a model that this node or a serving node has, ready or not. */
  card (modelId: string): ModelCard | undefined
  /**
   * Models for a task, on all nodes: card, and whether a ready runner serves it. Ready models come first and
   * bundled ones last, then by id, so that all nodes prefer the same one.
   */
  models (task: string): { card: ModelCard, ready: boolean }[]
  reports (): RunnerReport[]
  /**
   * Registers a model that a plugin on this node answers itself. It needs no files and no placement and is in
   * no list of instances, runners or tasks. Returns a function that unregisters it.
   */
  virtual (modelId: string, model: VirtualModel): () => void
}
export const RunnersService = defineService<Runners>('runners')

export interface EndingInstance { instance: Instance, nodeIds: string[] }

/** Why a model is not placed (`problem`, worded as part of a sentence), and the remedy. */
export interface MissingReason {
  /** `waiting_for_node`, `model_stopped`, or another cause. */
  code: string
  problem: string
  remedy: string
  /** True if the model waits for a node, so a later request may succeed. */
  waits: boolean
}

/** A new instance that is about to be added, and the instances already in the document. */
export interface PendingInstance { instance: Instance, instances: readonly Instance[] }

export interface PlacementState {
  instances: Record<string, Instance>
  runners: Record<string, RunnerStatus>
  /** Recorded failures, newest first, at most 64. */
  failures: InstanceFailure[]
}

export interface Instances {
  placed (): PlacementState
  /**
   * Adds an instance through the master. Returns its id, or the id of an existing instance that is used
   * instead. A repeated call with the same `commandId` has no further effect; `force` skips the checks of
   * `onEnter`. Throws errors from these checks.
   */
  place (instance: Instance, options?: { commandId?: string, force?: boolean }): Promise<string>
  /**
   * Removes an instance immediately; its requests end with `instance_lost`. Resolves when none of its runners
   * is left on this node, or with `ended: false` as soon as it is removed. Throws `instance_not_found`.
   */
  remove (instanceId: string, options?: { commandId?: string, ended?: boolean }): Promise<void>
  /**
   * Stops new requests. Removes the instance when its last request has ended, after `seconds` at the latest;
   * at once if it serves no request or its node no longer runs. Throws `instance_not_found`.
   */
  drain (instanceId: string, options: { seconds: number, commandId?: string }): Promise<void>
  /** Asks an instance's node to unload it, so that model `into` fits; the node may ignore it. */
  evict (instanceId: string, into: string): void
  /** Removed instances whose runners on live nodes still hold memory. */
  releasing (): EndingInstance[]
  /** True for a few seconds after a removal on other nodes: their memory readings may still include it. */
  settling (): boolean
  /** Records a failed instance and emits the event, for failures that only the master detects. */
  recordFailure (failure: Omit<InstanceFailure, 'recordedAt'>): void
  /**
   * Calls `place` when a request names a model without a placement. `place` returns true if the model now has
   * a ready instance; if it throws, the request fails with its error. Returns a function that unsubscribes.
   */
  onMissing (place: (query: RouteQuery) => Promise<boolean>): () => void
  /**
   * Registers a function that may explain why a model is not placed, for example because it waits for a node
   * or was stopped. Returns a function that unregisters it.
   */
  onAbsent (tell: (modelId: string) => MissingReason | null): () => void
  /**
   * Registers `check`, which runs before the master adds an instance and may refuse it by throwing. Returns a
   * function that unregisters it.
   */
  onEnter (check: (entering: PendingInstance) => void): () => void
}
export const InstanceService = defineService<Instances>('instances')

export interface TaskRequest extends Pick<RouteQuery, 'modelId' | 'capability' | 'ttlSeconds' | 'session'> {
  task: EngineTask
}

/** The parts of a call that a task needs. */
export type TaskCall = Pick<CapabilityCall,
  'commandId' | 'caller' | 'signal' | 'pinned' | 'hops' | 'trace' | 'retry' | 'setHeader'>

/** A task with input may be a function that makes it anew for each attempt. */
type RepeatableRequest = Omit<TaskRequest, 'task'> & { task: EngineTask | (() => EngineTask) }

/**
 * Serves a capability call with a runner: routes it as a task, sets the response header with the task's id,
 * and yields its chunks as the reader pulls. The call's signal cancels the task. If the instance is lost
 * before the first chunk and the call allows a retry, one other instance gets the task; if there is none,
 * the loss is thrown. Even without that permission, other instances are tried for a task that was refused
 * before any work on it, and those with a larger context for a task that is too long. A task whose input was
 * read is not tried again, unless `task` is a function. The header `x-svc-model` names the model that answers
 * in place of a virtual one. Throws like `Runners.route` and `Runners.open`.
 */
export async function * runTask (
  runners: Pick<Runners, 'route' | 'open'>, { task, ...request }: RepeatableRequest, call: TaskCall
): AsyncGenerator<EngineChunk> {
  const { modelId, capability, ttlSeconds, session } = request
  const { commandId, caller, signal, pinned = false, hops, trace } = call
  const query: RouteQuery = {
    modelId, capability, commandId, caller, signal, pinned, hops, ttlSeconds, session,
    payload: typeof task === 'function' ? undefined : task.payload,
    ...(trace === undefined ? {} : { trace })
  }
  const except: string[] = []
  let tooShort: string | undefined
  let retried = false
  let spent = false
  let last: unknown
  for (;;) {
    const route = yield * untilRouted(capability, async (onWait) =>
      await timed(trace, 'route', 'route', () => runners.route({ ...query, except, tooShort, onWait }))
        .catch((none: unknown) => { throw last ?? none }))
    trace?.task({ taskId: route.taskId, modelId, capability })
    call.setHeader('x-svc-task-id', route.taskId)
    if (except.length > 0) {
      trace?.note({ retried: true })
      call.setHeader('x-svc-retried', '1')
    }
    let answered = false
    const attempt = typeof task === 'function' ? task() : withInput(task, () => { spent = true })
    try {
      for await (const chunk of runners.open(route, attempt, signal)) {
        answered ||= chunk.payload['queue'] === undefined
        const { model } = chunk.payload
        if (typeof model === 'string') call.setHeader('x-svc-model', model)
        yield chunk
      }
      return
    } catch (error) {
      const { instanceId } = route
      const tooLong = error instanceof EngineError && error.reason === 'context_length_exceeded'
      if (answered || spent || signal.aborted || !(tooLong || isLoss(error))) throw error
      const started = !tooLong && error.details['begun'] !== NOT_STARTED.begun
      // A router without another instance returns the same instance again; a virtual model has only one.
      const again = except.includes(instanceId) || except.length >= MOST_TRIES ||
        (tooLong && instanceId === '')
      if (started ? !call.retry || retried : again) throw error
      if (tooLong) tooShort = instanceId
      retried ||= started
      if (tooLong || started) last = error
      except.push(instanceId)
    }
  }
}

const MOST_TRIES = 16

const isLoss = (error: unknown): error is SvcError =>
  error instanceof SvcError && error.reason === 'instance_lost'
