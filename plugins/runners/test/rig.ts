import { randomUUID } from 'node:crypto'
import { EngineError, type EngineChunk, type EngineTask, type ModelCard } from '../../../kernel/index.js'
import { startPlugin, type Fake, type Rig, type TestContext } from '../../../kernel/testing/index.js'
import type { RuntimeFiles } from '../machine/runtimes.js'
import { summarize } from '../machine/gpu.js'
import type { MachineReader } from '../machine/vitals.js'
import { createRunners } from '../index.js'
import type { Bundle } from '../cards/bundle.js'
import { RunnerError } from '../process/errors.js'
import { kindOf } from '../process/states.js'
import type { RunnerOptions, Supervisor } from '../process/supervisor.js'
import {
  bodyOf, InstanceService, RunnersService, type Instance, type Runners, type RunnerStatus
} from '../service.js'
import { card, machine, soloInstance } from './samples.js'

/** An in-memory runner: the test moves it through its statuses and controls its answers. */
export class FakeRunner implements Supervisor {
  readonly options: RunnerOptions
  status: RunnerStatus = { RunnerIdle: {} }
  secondsSinceForward: number | null = null
  /** Monotonic ms of the runner's last chunk. */
  forwardMono: number | null = null
  stopped = false
  opened: { taskId: string, task: EngineTask }[] = []
  /** Yields the chunks of a task; tests replace this function. */
  answer: (task: EngineTask, signal: AbortSignal) => AsyncIterable<EngineChunk> = twoChunks

  constructor (options: RunnerOptions) {
    this.options = options
  }

  start (): void {
    this.move({ RunnerConnecting: {} })
  }

  async * open (
    taskId: string, task: EngineTask, signal: AbortSignal, { admitted }: { admitted?: () => void } = {}
  ): AsyncGenerator<EngineChunk> {
    this.opened.push({ taskId, task })
    admitted?.()
    for await (const chunk of this.answer(task, signal)) {
      this.forwardMono = this.options.clock.mono()
      yield chunk
    }
  }

  async stop (): Promise<void> {
    this.stopped = true
    this.move({ RunnerShuttingDown: {} })
    this.move({ RunnerShutdown: {} })
  }

  report () {
    const { runnerId, instanceId, spec, clock } = this.options
    return {
      runnerId,
      instanceId,
      modelId: spec.card.modelId,
      pid: 4711,
      processAlive: !this.stopped,
      exitCode: null,
      statusKind: kindOf(this.status),
      secondsInStatus: 0,
      phase: '',
      restarts: 0,
      flightRecorder: [],
      inProgressTasks: [],
      completedTaskCount: 0,
      secondsSinceForward: this.forwardMono === null
        ? this.secondsSinceForward
        : (clock.mono() - this.forwardMono) / 1000,
      rssBytes: null,
      estimatedBytes: null,
      hold: null,
      slots: 1,
      slotsTaken: 0,
      waitingTasks: 0,
      waitedSeconds: 0,
      admittedTaskCount: 0,
      chunks: { received: 0, dropped: 0, buffered: 0 }
    }
  }

  move (status: RunnerStatus): void {
    this.status = status
    this.options.onStatus(status)
  }

  ready (): void {
    for (const kind of [
      'RunnerConnected',
      'RunnerLoading',
      'RunnerLoaded',
      'RunnerWarmingUp',
      'RunnerReady'
    ] as const) {
      this.move(
        (kind === 'RunnerLoading'
          ? { RunnerLoading: { layersLoaded: 1, totalLayers: 3 } }
          : { [kind]: {} }) as RunnerStatus
      )
    }
  }

  giveUp (errorMessage: string, errorCode: 'warmup_timeout' | 'runner_failed' = 'runner_failed'): void {
    this.move({ RunnerFailed: { errorMessage } })
    this.options.onFailed({ errorMessage, errorCode, attempts: 3 })
  }
}

export async function * twoChunks (): AsyncGenerator<EngineChunk> {
  yield { payload: { chunk_index: 0 } }
  yield { payload: { chunk_index: 1 } }
}

/** Yields one chunk and then waits until the signal aborts. */
export async function * endless (_task: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
  yield { payload: { chunk_index: 0 } }
  await new Promise((resolve) => { signal.addEventListener('abort', resolve, { once: true }) })
  throw new RunnerError('cancelled', 'The task was cancelled.')
}

/** An engine that yields `chunks` and then throws. */
export function failing (reason: string, chunks = 0, message = 'secret text') {
  return async function * (): AsyncGenerator<EngineChunk> {
    for (let index = 0; index < chunks; index += 1) yield { payload: { chunk_index: index } }
    throw reason === 'engine_error'
      ? new EngineError(reason, message)
      : new RunnerError(reason, message, { limit: 4 })
  }
}

/** A bundle with the given models and one engine. */
export function bundle (cards: ModelCard[], external = false): Bundle {
  const models = cards.map((one) => ({ card: one, directory: `/models/${one.modelId}` }))
  const engines = [
    {
      name: 'onnx-tts',
      owner: 'capabilities-tts',
      decl: { summary: 'speech', module: 'file:///engine.js', backends: ['cuda', 'cpu'], external }
    }
  ]
  return {
    engine: (name) => engines.find((engine) => engine.name === name),
    engines: () => engines,
    model: (id) => models.find((model) => model.card.modelId === id),
    models: () => models,
    cardReaders: () => []
  }
}

export interface RunnersRig extends Rig {
  /** All runners created so far. */
  runners: FakeRunner[]
  /** The newest runner of a model; waits until it exists. */
  runner (modelId: string): Promise<FakeRunner>
  state (): Promise<Record<string, never>>
}

export interface RigOptions {
  cards?: ModelCard[]
  /** True if the engine runs an external program. */
  external?: boolean
  /** Models placed on the node at its start; all of them if absent. */
  place?: string[]
  config?: Record<string, unknown>
  files?: Partial<RuntimeFiles>
  machine?: Partial<MachineReader>
  fakes?: Fake[]
  allow?: string[]
}

/** A machine whose facts are all unknown, except that it has no GPU. */
export const noGpus: MachineReader = {
  vitals: async () => ({ memory: null, system: null, disk: null, network: null }),
  load: () => summarize([], null),
  freeRam: async () => null, freeVram: async () => [], gpus: async () => ({ gpus: [], problems: [] }),
  lastGpus: () => ({ atMs: 0, gpus: [], vramByPid: new Map() })
}

/** The plugin alone on the real kernel, with in-memory runners and a fake machine. */
export async function startRunners (t: TestContext, options: RigOptions = {}): Promise<RunnersRig> {
  const runners: FakeRunner[] = []
  const createSupervisor = (made: RunnerOptions): FakeRunner => {
    const runner = new FakeRunner(made)
    runners.push(runner)
    return runner
  }
  const plugin = createRunners({
    createSupervisor, files: machine(options.files), uid: 1000,
    bundle: bundle(options.cards ?? [card('svc/voice-en')], options.external),
    reader: { ...noGpus, ...options.machine }
  })
  const rig = await startPlugin(t, plugin, {
    fakes: options.fakes ?? [],
    ...(options.config === undefined ? {} : { config: options.config }),
    ...(options.allow === undefined ? {} : { allow: options.allow })
  })
  const placed = options.place ?? (options.cards ?? [card('svc/voice-en')]).map(({ modelId }) => modelId)
  for (const modelId of placed) void ensure(rig, modelId)
  const find = (modelId: string): FakeRunner | undefined =>
    runners.findLast((runner) => runner.options.spec.card.modelId === modelId && !runner.stopped)
  return {
    ...rig,
    runners,
    async runner (modelId) {
      return await until(() => find(modelId))
    },
    async state () {
      return (await rig.inject({ url: '/state' })).json() as Record<string, never>
    }
  }
}

/**
 * Places a model on the rig's node regardless of memory, or returns an existing instance; replaces an
 * instance whose runner gave up.
 */
export async function ensure (
  rig: Pick<Rig, 'inject' | 'service'>, modelId: string
): Promise<{ instanceId: string }> {
  const instances = rig.service(InstanceService)
  const state = (await rig.inject({ url: '/state' })).json() as {
    localNodeId: string
    instances: Record<string, Instance>
    runners: Record<string, object>
  }
  for (const ring of Object.values(state.instances).map(bodyOf)) {
    const { instanceId, shardAssignments, drainUntil } = ring
    if (shardAssignments.modelId !== modelId || drainUntil !== undefined) continue
    const [runnerId = ''] = Object.values(shardAssignments.nodeToRunner)
    if (!('RunnerFailed' in (state.runners[runnerId] ?? {}))) return { instanceId }
    await instances.remove(instanceId)
  }
  const ids = { instanceId: randomUUID(), runnerId: randomUUID(), nodeId: state.localNodeId }
  return { instanceId: await instances.place(soloInstance(ids, card(modelId)), { force: true }) }
}

/** The plugin with a ready runner of the voice model. */
export async function ready (t: TestContext, options: Parameters<typeof startRunners>[1] = {}):
Promise<{ rig: RunnersRig, runner: FakeRunner, runners: Runners }> {
  const rig = await startRunners(t, options)
  const runner = await rig.runner('svc/voice-en')
  runner.ready()
  return { rig, runner, runners: rig.service(RunnersService) }
}

/** All chunks of a task. */
export async function drain (chunks: AsyncIterable<EngineChunk>): Promise<EngineChunk[]> {
  const all: EngineChunk[] = []
  for await (const chunk of chunks) all.push(chunk)
  return all
}

/** Waits until `look` returns a value; the test's own timeout is the limit. */
export async function until<T> (look: () => T | undefined | null | false): Promise<T> {
  for (;;) {
    const found = look()
    if (found !== undefined && found !== null && found !== false) return found
    await new Promise((resolve) => { setImmediate(resolve) })
  }
}
