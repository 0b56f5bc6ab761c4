import t from 'tap'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import { TelemetryService } from '../../../kernel/index.js'
import { RunnersService } from '../../runners/service.js'
import diagnostics from '../index.js'
import type { TelemetryCounters } from '../../../kernel/index.js'
import type { RunnerReport } from '../../runners/service.js'

const runner: RunnerReport = {
  runnerId: 'r1',
  instanceId: 'i1',
  modelId: 'svc/voice-en',
  pid: 4242,
  processAlive: true,
  exitCode: null,
  statusKind: 'RunnerReady',
  secondsInStatus: 3,
  phase: 'idle',
  restarts: 0,
  flightRecorder: [],
  inProgressTasks: [],
  completedTaskCount: 7,
  secondsSinceForward: 1,
  rssBytes: 1000
}

t.test('the report names the processes that do the work', async (t) => {
  const gone = { ...runner, runnerId: 'r2', pid: null, processAlive: false }
  const fakes = [fake(RunnersService, { reports: () => [runner, gone] })]
  const rig = await startPlugin(t, diagnostics, { fakes })
  const answer = await rig.inject({ url: '/v1/diagnostics/node' })
  t.equal(answer.statusCode, 200)
  t.match(answer.json(), {
    generatedAt: /^2026-01-01T/,
    runtime: { pid: process.pid, isMaster: true, hostname: String },
    processes: [
      { pid: process.pid, role: 'node' },
      { pid: 4242, role: 'runner', runnerId: 'r1', rssBytes: 1000 }
    ],
    supervisorRunners: [{ runnerId: 'r1', completedTaskCount: 7 }, { runnerId: 'r2' }],
    placements: [{ instanceId: 'i1', modelId: 'svc/voice-en' }, { runnerId: 'r2' }],
    plugins: [{ name: 'diagnostics', effects: ['event loop monitor'] }],
    warnings: []
  })
  t.equal((answer.json() as { processes: unknown[] }).processes.length, 2,
    'a runner without a process is not one')
})

t.test('it works without runners', async (t) => {
  const rig = await startPlugin(t, diagnostics)
  const answer = await rig.inject({ url: '/v1/diagnostics/node' })
  t.match(answer.json(), { supervisorRunners: [], placements: [], dials: [] })
})

t.test('only operators may look', async (t) => {
  const rig = await startPlugin(t, diagnostics, { allow: ['read', 'invoke'] })
  t.equal((await rig.inject({ url: '/v1/diagnostics/node' })).statusCode, 401)
})

const counters: TelemetryCounters = {
  enabled: true,
  transport: 'websocket',
  admissionCapacity: 64,
  pendingReadings: 2,
  queueDepth: 2,
  maxQueueDepth: 9,
  readingsOffered: 40,
  readingsCoalesced: 5,
  readingsDropped: 1,
  readingsPublished: 32,
  publishFailures: 3,
  noPeerPublishes: 4,
  bytesPublished: 12_345,
  lastSuccessfulPublishAgeSeconds: 1.5
}

t.test('the pressure of the telemetry plane, as the service counts it', async (t) => {
  const check = async (shown: TelemetryCounters): Promise<void> => {
    const fakes = [fake(TelemetryService, { counters: () => shown })]
    const rig = await startPlugin(t, diagnostics, { fakes, allow: ['read'] })
    const answer = await rig.inject({ url: '/v1/diagnostics/telemetry' })
    t.equal(answer.statusCode, 200, answer.body)
    t.strictSame(answer.json(), shown)
  }
  await check(counters)
  await check({ ...counters, lastSuccessfulPublishAgeSeconds: null })
  await check({ ...counters, enabled: false, readingsOffered: 0, readingsPublished: 0 })
})

t.test('telemetry is not shown without the read authority', async (t) => {
  const fakes = [fake(TelemetryService, { counters: () => counters })]
  const rig = await startPlugin(t, diagnostics, { fakes, allow: ['invoke'] })
  t.equal((await rig.inject({ url: '/v1/diagnostics/telemetry' })).statusCode, 401)
})
