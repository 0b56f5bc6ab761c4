import t from 'tap'
import { CommandService, type Gpu, type MachineStats } from '../../../kernel/index.js'
import { CallsService, type CallOutcome } from '../../capabilities/service.js'
import { fake } from '../../../kernel/testing/index.js'
import { InstanceService } from '../service.js'
import { ensure, noGpus, startRunners, until } from './rig.js'
import { card } from './samples.js'

const VOICE = 'svc/voice-en'

t.test('the bundled model starts with the node, in the shapes of /state', async (t) => {
  const rig = await startRunners(t)
  const runner = await rig.runner(VOICE)
  t.match(runner.options, {
    spec: { backend: 'cpu', threads: 1, directory: `/models/${VOICE}` },
    engineModule: 'file:///engine.js',
    maxConcurrent: 8,
    maxQueued: 32,
    memoryLimitBytes: 1024 ** 3
  })
  const { instanceId, runnerId } = runner.options
  t.match(runner.options.scratch, new RegExp(`^${rig.home}/run/runners/${runnerId}$`))
  const state = await rig.state()
  t.match(state, {
    instances: {
      [instanceId]: {
        RingInstance: {
          instanceId,
          contextTokenLimit: 0,
          systemRole: null,
          engine: 'onnx-tts',
          shardAssignments: {
            modelId: VOICE,
            runnerToShard: {
              [runnerId]: {
                PipelineShardMetadata: { deviceRank: 0, worldSize: 1, startLayer: 0, endLayer: 3, nLayers: 3 }
              }
            },
            nodeToRunner: { [state['localNodeId'] as unknown as string]: runnerId }
          }
        }
      }
    },
    runners: { [runnerId]: { RunnerConnecting: {} } },
    tasks: {},
    instanceFailures: []
  })
  t.strictSame(Object.keys(state['runners'] as unknown as object), [runnerId], 'and no other runner')
})

t.test('the readings of the machine are in /state while the plugin runs', async (t) => {
  const memory = {
    ramTotal: { inBytes: 4 }, ramAvailable: { inBytes: 3 },
    swapTotal: { inBytes: 2 }, swapAvailable: { inBytes: 1 }
  }
  const disk = { total: { inBytes: 6 }, available: { inBytes: 5 } }
  const vitals = async (): Promise<MachineStats> =>
    ({ memory, system: { ...noGpus.load(), pcpuUsage: 0.5 }, disk, network: { interfaces: [] } })
  const state = await (await startRunners(t, { machine: { vitals } })).state()
  const id = state['localNodeId'] as unknown as string
  t.match(state, {
    nodeMemory: { [id]: memory }, nodeDisk: { [id]: disk }, nodeNetwork: { [id]: { interfaces: [] } },
    nodeSystem: { [id]: { pcpuUsage: 0.5, accelerators: [], runnerMemory: {} } }
  })
})

t.test('options of an engine reach it, and more requests share the work of a batch', async (t) => {
  const engine_options = { 'onnx-tts': { max_batch: 24, dtype: 'q4' }, other: { max_batch: 99 } }
  const rig = await startRunners(t, { config: { engine_options } })
  t.match((await rig.runner(VOICE)).options,
    { spec: { options: { max_batch: 24, dtype: 'q4' } }, maxConcurrent: 24 })
  t.ok(rig.logged.some(({ message }) => message.includes('plugins.runners.engine_options.other names')))
  const external = await startRunners(t, { external: true, config: { engine_options, max_concurrent: 40 } })
  t.match((await external.runner(VOICE)).options, { spec: { options: { max_batch: 24 } }, maxConcurrent: 40 })
})

t.test('an option that is no number leaves the bound as it is', async (t) => {
  const rig = await startRunners(t, { config: { engine_options: { 'onnx-tts': { max_batch: 'many' } } } })
  t.equal((await rig.runner(VOICE)).options.maxConcurrent, 8)
})

t.test('hosts are for operators', async (t) => {
  const rig = await startRunners(t, { allow: ['read'] })
  const { instanceId } = (await rig.runner(VOICE)).options
  const instances = (await rig.state())['instances'] as unknown as Record<
    string,
    { RingInstance: { hostsByNode: unknown } }
  >
  t.equal(instances[instanceId]?.RingInstance.hostsByNode, null)
})

t.test('the tag, the status and the events follow the runner', async (t) => {
  const rig = await startRunners(t, { place: [] })
  const { instanceId } = await ensure(rig, VOICE)
  const nodeIds = [(await rig.state())['localNodeId'] as unknown as string]
  t.same(rig.events[0], { kind: 'InstanceCreated', payload: { instanceId, modelId: VOICE, nodeIds } })
  const runner = await rig.runner(VOICE)
  const { runnerId } = runner.options
  const tags = async (): Promise<unknown> =>
    Object.values((await rig.state())['nodeCapabilities'] as unknown as object)[0]
  t.same(await tags(), [])
  runner.ready()
  t.same(await tags(), ['tts'])
  t.same((await rig.state())['runners'], { [runnerId]: { RunnerReady: {} } })
  const kinds = (): string[] =>
    rig.events
      .filter(({ kind }) => kind === 'RunnerStatusUpdated')
      .map(({ payload }) => Object.keys(payload['status'] as object)[0] ?? '')
  const soFar = kinds()
  t.same(soFar, [
    'RunnerIdle',
    'RunnerConnecting',
    'RunnerConnected',
    'RunnerLoading',
    'RunnerLoaded',
    'RunnerWarmingUp',
    'RunnerReady'
  ])
  for (let n = 0; n < 50; n += 1) {
    runner.move({ RunnerRunning: {} })
    runner.move({ RunnerReady: {} })
  }
  t.same(kinds(), soFar, 'ready and running alternate without events')
  runner.move({ RunnerIdle: {} })
  t.same(await tags(), [], 'a crashed runner takes the tag away')
  t.same(kinds().slice(soFar.length), ['RunnerIdle'])
})

t.test('a runner that is given up is recorded and can be asked for again', async (t) => {
  const rig = await startRunners(t)
  const first = await rig.runner(VOICE)
  const { instanceId, runnerId } = first.options
  const nodeId = (await rig.state())['localNodeId'] as unknown as string
  first.giveUp('out of memory')
  const state = await rig.state()
  t.same(state['runners'], {
    [runnerId]: {
      RunnerFailed: {
        errorMessage: 'out of memory', errorCode: 'runner_failed', nextTryAt: '2026-01-01T00:01:00.000Z'
      }
    }
  })
  t.match(state['instanceFailures'], [
    {
      instanceId,
      modelId: VOICE,
      errorCode: 'runner_failed',
      errorMessage: 'out of memory',
      affectedNodeIds: [nodeId],
      recordedAt: /^2026-01-01T/
    }
  ])
  t.match(rig.events.find(({ kind }) => kind === 'RunnerFailed')?.payload, {
    runnerId,
    errorMessage: 'out of memory',
    attempts: 3
  })
  t.match(rig.events.find(({ kind }) => kind === 'InstanceFailureRecorded')?.payload, {
    instanceId,
    errorCode: 'runner_failed'
  })
  await rig.clock.advance(60_000)
  const retried = await rig.runner(VOICE)
  t.not(retried, first)
  retried.giveUp('out of memory')
  t.equal(((await rig.state())['instanceFailures'] as unknown as unknown[]).length, 1, 'the newest of each')
  const again = await ensure(rig, VOICE)
  t.not(again.instanceId, instanceId)
  const second = await rig.runner(VOICE)
  t.ok(first.stopped)
  t.same(Object.keys((await rig.state())['runners'] as unknown as object), [second.options.runnerId])
})

t.test('failures are bounded, newest first', async (t) => {
  const rig = await startRunners(t)
  for (let n = 0; n < 70; n += 1) {
    ;(await rig.runner(VOICE)).giveUp(`failure ${n}`)
    await rig.clock.advance(1000)
    await ensure(rig, VOICE)
  }
  const shown = (await rig.state())['instanceFailures'] as unknown as { errorMessage: string }[]
  t.equal(shown.length, 64)
  t.same([shown[0]?.errorMessage, shown[63]?.errorMessage], ['failure 69', 'failure 6'])
})

t.test('place and remove', async (t) => {
  const rig = await startRunners(t, { cards: [card(VOICE), card('acme/x')], place: [] })
  const instances = rig.service(InstanceService)
  t.same((await rig.state())['instances'], {}, 'an empty list starts nothing')
  const [one, two] = await Promise.all([ensure(rig, 'acme/x'), ensure(rig, 'acme/x')])
  t.same(one, two, 'placed twice at once, there once')
  t.same(await ensure(rig, 'acme/x'), one)
  const runner = await rig.runner('acme/x')
  await instances.remove(one.instanceId)
  t.ok(runner.stopped)
  const state = await rig.state()
  t.same([state['instances'], state['runners']], [{}, {}])
  t.match(rig.events.at(-1), { kind: 'RunnerStatusUpdated', payload: { status: { RunnerShutdown: {} } } })
  t.ok(
    rig.events.some(
      ({ kind, payload }) => kind === 'InstanceDeleted' && payload['instanceId'] === one.instanceId
    )
  )
  t.not((await ensure(rig, 'acme/x')).instanceId, one.instanceId)
  await t.rejects(instances.remove(one.instanceId), { reason: 'instance_not_found', status: 404 } as never)
})

t.test('a model without a backend fails with the cause', async (t) => {
  const gpuOnly = card('acme/gpu', { backends: ['cuda'] })
  const noEngine = card('acme/other', { engine: 'ghost' })
  const rig = await startRunners(t, { cards: [gpuOnly, noEngine] })
  await until(() => rig.events.filter(({ kind }) => kind === 'InstanceFailureRecorded').length === 2)
  const failures = (await rig.state())['instanceFailures'] as unknown as { modelId: string }[]
  t.match(failures.toSorted((a, b) => a.modelId < b.modelId ? -1 : 1), [
    { modelId: 'acme/gpu', errorCode: 'no_backend', errorMessage: /cuda/ },
    { modelId: 'acme/other', errorCode: 'no_backend', errorMessage: /ghost/ }
  ])
})

t.test('a declared backend is honoured unseen', async (t) => {
  const rig = await startRunners(t, { config: { backends: { 'onnx-tts': 'cuda', typo: 'cpu' } } })
  t.equal((await rig.runner(VOICE)).options.spec.backend, 'cuda')
  t.ok(
    rig.logged.some(({ level, message }) => level === 'warn' && /backends\.typo/.test(message)),
    'an unknown engine is said'
  )
  await rig.clock.advance(1000)
  await until(() => rig.conflicts().length > 0)
  t.match(rig.conflicts(), [
    { code: 'backend_override_conflict', severity: 'warn', message: /onnx-tts is cuda, but no NVIDIA GPU/ }
  ])
})

const h200: Gpu = {
  vendor: 'nvidia', name: 'NVIDIA H200', utilizationRatio: null, vramTotalBytes: 143_771 * 1024 ** 2,
  vramUsedBytes: null, powerWatts: null, temperatureCelsius: null
}

t.test('a GPU that CUDA_VISIBLE_DEVICES hides is none', async (t) => {
  const rig = await startRunners(t, {
    files: { env: { CUDA_VISIBLE_DEVICES: '-1' } }, config: { backends: { 'onnx-tts': 'cuda' } },
    machine: { gpus: async () => ({ gpus: [h200], problems: [] }) }
  })
  await rig.clock.advance(1000)
  await until(() => rig.conflicts().length > 0)
  t.match(rig.conflicts(), [{ code: 'backend_override_conflict' }])
})

t.test('a GPU left unused is an error in nodeHealth', async (t) => {
  const rig = await startRunners(t, {
    config: { backends: { 'onnx-tts': 'cpu' } },
    files: { list: async (folder) => (folder === '/dev' ? ['nvidia0', 'nvidiactl'] : []) },
    machine: { gpus: async () => ({ gpus: [h200], problems: [] }) }
  })
  await rig.runner(VOICE)
  await rig.clock.advance(1000)
  await until(() => rig.conflicts().length > 0)
  const state = await rig.state()
  const nodeId = state['localNodeId'] as unknown as string
  t.match(state['nodeHealth'], {
    [nodeId]: { level: 'error', reasons: [{ code: 'gpu_serving_disabled', message: /NVIDIA H200/ }] }
  })
  t.match(state['nodeResources'], { [nodeId]: { backends: ['cpu'], participation: 'full' } })
})

t.test('an unusable binary override is a warning', async (t) => {
  const rig = await startRunners(t, { files: { env: { SVC_LLAMA_SERVER_BIN: 'llama-server' } } })
  await until(() => rig.conflicts().length > 0)
  t.match(rig.conflicts(), [
    { code: 'invalid_engine_binary', message: /SVC_LLAMA_SERVER_BIN: llama-server is not an absolute path/ }
  ])
})

const overrides: [string, boolean, string, Record<string, unknown>][] = [
  ['an external engine gets its usable override', true, '/bin/sh', { serverBinary: '/bin/sh' }],
  ['an engine of our own gets none', false, '/bin/sh', {}]
]
for (const [name, external, path, expected] of overrides) {
  t.test(name, async (t) => {
    const rig = await startRunners(t, { external, files: { env: { SVC_ONNX_TTS_SERVER_BIN: path } } })
    t.same((await rig.runner(VOICE)).options.spec.options, expected)
  })
}

t.test('nothing takes the place of an unusable override', async (t) => {
  const rig = await startRunners(t, {
    external: true, files: { env: { SVC_ONNX_TTS_SERVER_BIN: '/dev/null' } }
  })
  await until(() => rig.events.some(({ kind }) => kind === 'InstanceFailureRecorded'))
  t.match((await rig.state())['instanceFailures'], [
    { errorCode: 'no_backend', errorMessage: /SVC_ONNX_TTS_SERVER_BIN: \/dev\/null is not a regular file/ }
  ])
  t.equal(rig.runners.length, 0)
})

t.test('a wrong warmup deadline ends the boot with its name', async (t) => {
  await t.rejects(
    startRunners(t, { files: { env: { SVC_WARMUP_DEADLINE_SECONDS: 'soon' } } }),
    /SVC_WARMUP_DEADLINE_SECONDS/
  )
})

t.test('every runner ends with the node', async (t) => {
  const rig = await startRunners(t, { cards: [card(VOICE), card('acme/x')] })
  await rig.runner(VOICE)
  await rig.runner('acme/x')
  await rig.stop()
  t.same(
    rig.runners.map(({ stopped }) => stopped),
    [true, true]
  )
})

t.test('cancelling by command id', async (t) => {
  const cancelled: string[] = []
  const commands = fake(CommandService, {
    cancel: (id, caller) => id === 'known' && cancelled.push(`${id} ${caller.id}`) > 0
  })
  const rig = await startRunners(t, { fakes: [commands] })
  const yes = await rig.inject({ method: 'POST', url: '/v1/cancel/known' })
  t.equal(yes.statusCode, 200)
  t.match(yes.json(), { message: String, command_id: 'known' })
  t.equal(cancelled.length, 1)
  const no = await rig.inject({ method: 'POST', url: '/v1/cancel/unknown' })
  t.equal(no.statusCode, 404)
  t.match(no.json(), { error: { reason: 'command_unknown', retryable: false } })
  const long = await rig.inject({ method: 'POST', url: `/v1/cancel/${'x'.repeat(129)}` })
  t.equal(long.statusCode, 400)
})

t.test('cancelling needs the invoke authority', async (t) => {
  const rig = await startRunners(t, { allow: ['read'] })
  t.equal((await rig.inject({ method: 'POST', url: '/v1/cancel/x' })).statusCode, 401)
})

t.test('a task that was lost with the node that took its call has its event, once', async (t) => {
  let ended = (_: CallOutcome): void => {}
  const calls = fake(CallsService, { onEnd: (fn) => { ended = fn; return () => {} } })
  const rig = await startRunners(t, { fakes: [calls] })
  const call: CallOutcome = {
    kind: 'failed', reason: 'instance_lost', commandId: 'C', capability: 'tts@1.0.0', taskId: 'T',
    callId: 'c', requestId: 'r', callerId: 'ann', seconds: 1, passedOn: false, queuedSeconds: 0
  }
  const others = [{ kind: 'completed' as const, reason: null }, { reason: 'no_instance' }, { taskId: null }]
  for (const over of [{}, {}, { reason: 'unreachable', taskId: 'U' }, ...others]) ended({ ...call, ...over })
  const told = rig.events.filter(({ kind }) => kind === 'TaskFailed').map(({ payload }) => payload)
  t.match(told, [{ taskId: 'T', commandId: 'C', errorType: 'instance_lost' }, { taskId: 'U' }])
  t.equal(told.length, 2)
})
