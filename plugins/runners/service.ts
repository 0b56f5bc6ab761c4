import { defineService, EngineError, SvcError, timed } from '../../kernel/index.js'
import { NOT_STARTED } from './process/errors.js'
import type { Bundle } from './cards/bundle.js'
import type { Instance, InstanceFailure } from './instances/sections.js'
import type { Machine } from './machine/vitals.js'
import type {
  CapabilityCall, Caller, EngineChunk, EngineTask, Manifest, ModelCard, Trace
} from '../../kernel/index.js'

export type { Bundle, BundledModel, RegisteredEngine } from './cards/bundle.js'
export { placement } from './instances/sections.js'
export { errors as runnerErrors } from './declarations.js'
export { overrideVariable } from './machine/backends.js'
export type { Machine } from './machine/vitals.js'
export {
  whyLibraryCannot, BUILD_FILE, buildsFolder, buildsOf, buildText, findLibrary, findProgram, listsBackend,
  outputOf, readDevices
} from './machine/programs.js'
export type { Build } from './machine/programs.js'
export { runtimeFiles } from './machine/runtimes.js'
export { ROOT, toSentSpan, SpanRecorder, SPANS_MAX } from './process/span-recorder.js'
export type { ClockNote, PlacedSpan, SpanPart, SpanPlace } from './process/span-recorder.js'
export { bodyOf, changed, devicePartsOf, partOf, stateCard } from './instances/shapes.js'
export type {
  Instance, LlamaRpcInstance, PlacementIntent, RingInstance, Shard, ShardBody, StateCard
} from './instances/sections.js'

export const BundleService = defineService<Bundle>('runners.bundle')
export const MachineService = defineService<Machine>('runners.machine')

/** The remedies that these plugins declare, by error reason. */
export const remediesIn = ({ manifests }: { manifests: readonly Pick<Manifest, 'errors'>[] }): Remedies =>
  Object.assign({}, ...manifests.map(({ errors }) => errors ?? {})) as Remedies
export type Remedies = Readonly<Partial<Record<string, { remedy: string }>>>

/** For people: what lets more requests of a model run at once. */
export const capacityRemedy = (modelId: string): string =>
  `Place one more instance: \`svc place ${modelId} --node NODE\`; or one that takes more at once: of a ` +
  'language model after `svc stop` with `--slots N`, of others after ' +
  '`svc config set plugins.runners.max_concurrent` and a restart.'

/**
 * What a runner waits for before it can start, for ever. Times are ISO-8601. Without `tries` and `nextTryAt`
 * it is waited for, and not asked again.
 */
export interface StartBlocker {
  reason: string, message: string, since: string, tries?: number, nextTryAt?: string
}

/** A runner's lifecycle as a one-key object, e.g. `{"RunnerReady":{}}`. */
export type RunnerStatus =
  | { RunnerIdle: { waitsFor?: StartBlocker } } | { RunnerConnecting: Record<never, never> }
  | { RunnerConnected: Record<never, never> }
  | { RunnerLoading: { layersLoaded: number, totalLayers: number } }
  | { RunnerLoaded: Record<never, never> } | { RunnerWarmingUp: Record<never, never> }
  | { RunnerReady: Record<never, never> } | { RunnerRunning: Record<never, never> }
  | { RunnerShuttingDown: Record<never, never> } | { RunnerShutdown: Record<never, never> }
  | { RunnerFailed: { errorMessage: string, errorCode?: string, nextTryAt?: string } }

/** One line of a runner's recent past. */
export interface FlightEntry { at: string, what: string }

/** A runner as diagnostics show it. Times in seconds. */
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
  /** Seconds since a real inference (warmup, request or canary) last succeeded; null when never. */
  secondsSinceForward: number | null
  rssBytes: number | null
  /** Memory that placement counts for it; null where it could not even be made. */
  estimatedBytes: number | null
  /**
   * How far it is confined: by namespaces, to the files it needs, to its rights, or not at all; null when it
   * does not run.
   */
  hold: 'namespaces' | 'network' | 'files' | 'privileges' | 'none' | null
  /** Answers that the runner gives at once, those that it gives now, and tasks that wait for a slot. */
  slots: number
  slotsTaken: number
  waitingTasks: number
  /** Time that tasks have waited for a place so far, all together, and how many got one. */
  waitedSeconds: number
  admittedTaskCount: number
  /** Chunks of all tasks so far: those that came, those dropped, and those that wait for their reader now. */
  chunks: { received: number, dropped: number, buffered: number }
}

export type TerminalStatus = 'Complete' | 'TimedOut' | 'Failed' | 'Cancelled'

/** A task that has ended, as its node saw it. Nothing of what was asked or answered is in it. */
export interface EndedTask {
  taskId: string
  modelId: string
  capability: string
  status: TerminalStatus
  /** The request came to this node; false for a task of another node. */
  entered: boolean
  served: boolean
  /** From the routing to the end, and to the first token or sound; null when none came. */
  seconds: number
  firstSeconds: number | null
  /** As the engine counted them; null where it said nothing. */
  tokens: { prompt: number, cached: number, generated: number } | null
  /** Length of the sound it gave, seconds. */
  audioSeconds: number
}

export interface RunnerCancel {
  /** Tasks that were inside the runner. */
  taskIds: string[]
  /** It did not stop working on them in time, so its process was killed and starts again. */
  restarted: boolean
}

/** The tasks of this node's runners, for plugins that measure or cancel them. */
export interface RunnerWork {
  /** Calls `fn` when a task that entered or was served here has ended. */
  onTask (fn: (task: EndedTask) => void): () => void
  /**
   * Ends the tasks inside a runner with `cancelled`; a runner that still works on one after `graceMs` is
   * ended and started again. Null for a runner that is not on this node.
   */
  cancel (runnerId: string, graceMs: number): Promise<RunnerCancel | null>
}
export const RunnerWorkService = defineService<RunnerWork>('runners.work')

/** A task and the runner that serves it, on any node. A virtual model has no instance and runner: ''. */
export interface Route {
  taskId: string
  instanceId: string
  runnerId: string
  modelId: string
  /** The node of the runner: the id of its present start, and the one that stays. */
  nodeId: string
  installId: string
  /** Its trace, when it is traced. */
  trace?: Trace | undefined
}

/**
 * What a routed request asks for. `signal` ends the wait for a model that is only being placed for it;
 * `pinned`: only a runner of this node may serve it; `except`: instances that earlier tries have lost;
 * `tooShort`: the instance whose context had no room, so that only one with a larger context may serve it.
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
  trace?: Trace | undefined
}

/** A model that a plugin answers for itself. */
export interface VirtualModel {
  /** Undefined while it is not to be seen. */
  card (): ModelCard | undefined
  /** What its requests are refused with now; null while they are answered. */
  refusal (): SvcError | null
  /** Runs a task for `query.caller`, in the messages of engines. Aborting the signal ends it. */
  open (task: EngineTask, query: RouteQuery, signal: AbortSignal): AsyncIterable<EngineChunk>
}

/** The data plane from any node to the runner that serves a model. */
export interface Runners {
  /**
   * Names a task and picks the ready runner with the least outstanding work, on whichever node. Throws
   * `no_instance` (details.brokenLink and details.remedy name the first broken link of the availability
   * chain): 503 while the model is placed or waits for a place, 404 where nobody placed it.
   */
  route (query: RouteQuery): Promise<Route>
  /**
   * Runs the task. Pulling is the backpressure; aborting the signal cancels the work in the engine.
   * Throws `instance_lost` when the runner or its node ends before the task does, `overloaded` when the
   * runner's queue is full, EngineError reasons as they are.
   */
  open (route: Route, task: EngineTask, signal: AbortSignal): AsyncIterable<EngineChunk>
  /** The card of a model this node can name, ready or not. */
  card (modelId: string): ModelCard | undefined
  /** Models with the given task, here and on other nodes: card, and whether a ready runner serves it. */
  models (task: string): { card: ModelCard, ready: boolean }[]
  reports (): RunnerReport[]
  /**
   * Registers a model that a plugin of this node answers for itself. It needs no files and no placement, and
   * it is in no list of instances, runners or tasks. Returns what ends that.
   */
  virtual (modelId: string, model: VirtualModel): () => void
}
export const RunnersService = defineService<Runners>('runners')

/** A removed instance and the nodes on which its runner is still ending. */
export interface EndingInstance { instance: Instance, nodeIds: string[] }

/** Why a model is not placed, as a part of a sentence, and what mends it. */
export interface MissingReason {
  /** `waiting_for_node`, `model_stopped`, or what else is the cause. */
  code: string
  problem: string
  remedy: string
  /** It will be placed as soon as that is possible. */
  waits: boolean
}

/** The instance to be entered, and those in the document at that moment. */
export interface PendingInstance { instance: Instance, instances: readonly Instance[] }

/** What is placed, how its runners stand and why instances could not serve; over the whole cluster. */
export interface PlacementState {
  instances: Record<string, Instance>
  runners: Record<string, RunnerStatus>
  /** Newest first, at most 64. */
  failures: InstanceFailure[]
}

export interface Instances {
  /** What is placed, as this node knows it now. */
  placed (): PlacementState
  /**
   * Has the master enter an instance; the id of the one that counts. `commandId` makes a repeated one the
   * same one; `force` leaves out the checks of `onEnter`. Throws what they throw.
   */
  place (instance: Instance, options?: { commandId?: string, force?: boolean }): Promise<string>
  /**
   * Removes it at once; what it serves ends with `instance_lost`. Resolves when no runner of it is left on
   * this node; with `ended: false` as soon as it is removed. Throws `instance_not_found`.
   */
  remove (instanceId: string, options?: { commandId?: string, ended?: boolean }): Promise<void>
  /**
   * Has it take no new requests and removes it when the last one has ended, after `seconds` at the latest.
   * Where it serves nobody, or its node is gone, that is at once. Throws `instance_not_found`.
   */
  drain (instanceId: string, options: { seconds: number, commandId?: string }): Promise<void>
  /**
   * Instances that were removed while the runners they had on live nodes still give their memory back.
   */
  releasing (): EndingInstance[]
  /** True for a few seconds after a removal: what nodes say of their memory may still show it in use. */
  settling (): boolean
  /** Enters that an instance cannot serve, with the event, for what only the master sees. */
  recordFailure (failure: Omit<InstanceFailure, 'recordedAt'>): void
  /**
   * Calls `place` when a request names a model that is not placed anywhere: true when it has a ready instance
   * now. Its errors become the request's. Returns what unsubscribes.
   */
  onMissing (place: (query: RouteQuery) => Promise<boolean>): () => void
  /**
   * Registers `tell`, which says why a model is not placed where it knows: it waits for a node, or was
   * stopped. Returns what unregisters it.
   */
  onAbsent (tell: (modelId: string) => MissingReason | null): () => void
  /**
   * Registers `check`, which sees each instance before the master enters it; a throw refuses it. Returns what
   * unregisters it.
   */
  onEnter (check: (entering: PendingInstance) => void): () => void
}
export const InstanceService = defineService<Instances>('instances')

export interface TaskRequest extends Pick<RouteQuery, 'modelId' | 'capability'> { task: EngineTask }

/**
 * Serves a capability call with a runner: routes it as a task, names the task in a header of the answer, and
 * yields the task's chunks. The reader's pull is the backpressure; the call's signal cancels. When the
 * instance is lost before the first chunk and the call allows a retry, another instance gets the task, once;
 * without another one the loss is thrown. A task that was refused before any work on it goes to each other
 * instance without that permission, and one that was too long for the context to those with a larger one.
 * Throws what `Runners.route` and `Runners.open` throw.
 */
export async function * runTask (
  runners: Pick<Runners, 'route' | 'open'>, { modelId, capability, task }: TaskRequest, call: CapabilityCall
): AsyncGenerator<EngineChunk> {
  const { commandId, caller, signal, pinned = false, trace } = call
  const query: RouteQuery = {
    modelId, capability, commandId, caller, signal, pinned, ...(trace === undefined ? {} : { trace })
  }
  const except: string[] = []
  let tooShort: string | undefined
  let retried = false
  let last: unknown
  for (;;) {
    const route = await timed(trace, 'route', 'route', () => runners.route({ ...query, except, tooShort }))
      .catch((none: unknown) => { throw last ?? none })
    trace?.task({ taskId: route.taskId, modelId, capability })
    call.setHeader('x-svc-task-id', route.taskId)
    if (except.length > 0) {
      trace?.note({ retried: true })
      call.setHeader('x-svc-retried', '1')
    }
    let answered = false
    try {
      for await (const chunk of runners.open(route, task, signal)) {
        answered ||= chunk.payload['queue'] === undefined
        yield chunk
      }
      return
    } catch (error) {
      const { instanceId } = route
      const tooLong = error instanceof EngineError && error.reason === 'context_length_exceeded'
      if (answered || signal.aborted || !(tooLong || isLoss(error))) throw error
      const begun = !tooLong && error.details['begun'] !== NOT_STARTED.begun
      // A router without another instance returns the same one again; a virtual model has one only.
      const again = except.includes(instanceId) || except.length >= MOST_TRIES ||
        (tooLong && instanceId === '')
      if (begun ? !call.retry || retried : again) throw error
      if (tooLong) tooShort = instanceId
      retried ||= begun
      if (tooLong || begun) last = error
      except.push(instanceId)
    }
  }
}

/** Most further instances that one request tries. */
const MOST_TRIES = 16

const isLoss = (error: unknown): error is SvcError =>
  error instanceof SvcError && error.reason === 'instance_lost'
