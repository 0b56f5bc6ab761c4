import { BundleService, EngineError } from '../../../kernel/index.js'
import type { EngineChunk, EngineTask, ModelCard } from '../../../kernel/index.js'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import type { Fake, Rig, TestContext } from '../../../kernel/testing/index.js'
import type { ProbeIo } from '../gpu-probe.js'
import { createRunners } from '../index.js'
import { RunnerError } from '../process/errors.js'
import { kindOf } from '../process/states.js'
import type { RunnerOptions, Supervisor } from '../process/supervisor.js'
import type { RunnerStatus } from '../service.js'
import { card, machine } from './samples.js'

/** An in-memory runner: the test moves it through its states and decides what it answers. */
export class FakeRunner implements Supervisor {
  readonly options: RunnerOptions
  status: RunnerStatus = { RunnerIdle: {} }
  secondsSinceForward: number | null = null
  stopped = false
  opened: { taskId: string, task: EngineTask }[] = []
  /** What `open` yields; replaced by tests. */
  answer: (task: EngineTask, signal: AbortSignal) => AsyncIterable<EngineChunk> = twoChunks

  constructor (options: RunnerOptions) {
    this.options = options
  }

  start (): void {
    this.move({ RunnerConnecting: {} })
  }

  async * open (taskId: string, task: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    this.opened.push({ taskId, task })
    yield * this.answer(task, signal)
  }

  async stop (): Promise<void> {
    this.stopped = true
    this.move({ RunnerShuttingDown: {} })
    this.move({ RunnerShutdown: {} })
  }

  report () {
    const { runnerId, instanceId, spec } = this.options
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
      secondsSinceForward: this.secondsSinceForward,
      rssBytes: null
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

  giveUp (errorMessage: string): void {
    this.move({ RunnerFailed: { errorMessage } })
    this.options.onFailed({ errorMessage, attempts: 3 })
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

/** An engine that answers `chunks` and then throws. */
export function failing (reason: string, chunks = 0, message = 'secret text') {
  return async function * (): AsyncGenerator<EngineChunk> {
    for (let index = 0; index < chunks; index += 1) yield { payload: { chunk_index: index } }
    throw reason === 'engine_error'
      ? new EngineError(reason, message)
      : new RunnerError(reason, message, { limit: 4 })
  }
}

/** The bundle service with the given models and one engine. */
export function bundle (cards: ModelCard[], external = false): Fake {
  const models = cards.map((one) => ({ card: one, directory: `/models/${one.modelId}` }))
  const engines = [
    {
      name: 'onnx-tts',
      owner: 'capabilities-tts',
      decl: { summary: 'speech', module: 'file:///engine.js', backends: ['cuda', 'cpu'], external }
    }
  ]
  return fake(BundleService, {
    engine: (name) => engines.find((engine) => engine.name === name),
    engines: () => engines,
    model: (id) => models.find((model) => model.card.modelId === id),
    models: () => models
  })
}

export interface RunnersRig extends Rig {
  /** Every runner made so far. */
  runners: FakeRunner[]
  /** The newest runner of a model; waits until it is there. */
  runner (modelId: string): Promise<FakeRunner>
  state (): Promise<Record<string, never>>
}

export interface RigOptions {
  cards?: ModelCard[]
  /** The engine drives an external program. */
  external?: boolean
  config?: Record<string, unknown>
  probe?: Partial<ProbeIo>
  fakes?: Fake[]
  allow?: string[]
}

/** The plugin alone on the real kernel, with in-memory runners and a made-up machine. */
export async function startRunners (t: TestContext, options: RigOptions = {}): Promise<RunnersRig> {
  const runners: FakeRunner[] = []
  const createSupervisor = (made: RunnerOptions): FakeRunner => {
    const runner = new FakeRunner(made)
    runners.push(runner)
    return runner
  }
  const plugin = createRunners({ createSupervisor, probe: machine(options.probe), uid: 1000 })
  const rig = await startPlugin(t, plugin, {
    fakes: [bundle(options.cards ?? [card('svc/voice-en')], options.external), ...(options.fakes ?? [])],
    ...(options.config === undefined ? {} : { config: options.config }),
    ...(options.allow === undefined ? {} : { allow: options.allow })
  })
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

/** Waits until `look` gives something; the test's own timeout is the limit. */
export async function until<T> (look: () => T | undefined | null | false): Promise<T> {
  for (;;) {
    const found = look()
    if (found !== undefined && found !== null && found !== false) return found
    await new Promise((resolve) => { setImmediate(resolve) })
  }
}
