import { ServerResponse } from 'node:http'
import t from 'tap'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import { definePlugin, GossipService, type GossipCounters } from '../../../kernel/index.js'
import { EventLogService } from '../../event-log/service.js'
import { RunnersService } from '../../runners/service.js'
import { TracingService } from '../../tracing/service.js'
import diagnostics from '../index.js'
import { countByName, dataPlane, type NodeDiagnostics } from '../report.js'
import { warningsOf, type WarningsInput } from '../warnings.js'
import { counters, eventLog, runnerReport } from './kit.js'

const runner = runnerReport()

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
    plugins: [{
      name: 'diagnostics', effects: ['event loop monitor', 'metrics']
    }],
    warnings: [], warningCodes: []
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

t.test('the pressure of gossip, as the service counts it', async (t) => {
  const check = async (shown: GossipCounters): Promise<void> => {
    const fakes = [fake(GossipService, { counters: () => shown })]
    const rig = await startPlugin(t, diagnostics, { fakes, allow: ['read'] })
    const answer = await rig.inject({ url: '/v1/diagnostics/telemetry' })
    t.equal(answer.statusCode, 200, answer.body)
    t.strictSame(answer.json(), shown)
  }
  await check(counters())
  await check(counters({ lastSuccessfulPublishAgeSeconds: null }))
  await check(counters({ enabled: false, readingsOffered: 0, readingsPublished: 0 }))
})

t.test('telemetry is not shown without the read authority', async (t) => {
  const fakes = [fake(GossipService, { counters: () => counters() })]
  const rig = await startPlugin(t, diagnostics, { fakes, allow: ['invoke'] })
  t.equal((await rig.inject({ url: '/v1/diagnostics/telemetry' })).statusCode, 401)
})

t.test('what carries requests is all zero while nothing goes on', async (t) => {
  const fakes = [fake(RunnersService, { reports: () => [runner] })]
  const rig = await startPlugin(t, diagnostics, { fakes })
  const url = await rig.listen()
  t.equal((await fetch(`${url}/healthz`)).status, 200)
  const report = (await rig.inject({ url: '/v1/diagnostics/node' })).json() as NodeDiagnostics
  t.match(report.resources, {
    eventLoopDelayMs: { p50: Number, p99: Number, max: Number },
    heapUsedBytes: Number, heapLimitBytes: Number,
    handles: Object, openFiles: process.platform === 'linux' ? Number : null
  })
  const still = [
    'openStreams', 'openCommands', 'callsRunning', 'callsWaiting', 'runnerTasks', 'runnerTasksWaiting',
    'chunksBuffered', 'bytesBuffered'
  ]
  const plane = report.resources['dataPlane'] as Record<string, unknown>
  t.same(still.map((key) => plane[key]), still.map(() => 0))
  t.match(plane, { chunksReceived: 21, chunksDropped: 0, links: [] })
})

t.test('work under way shows in the data plane', (t) => {
  const busy = runnerReport({
    inProgressTasks: ['t1', 't2'], waitingTasks: 3, chunks: { received: 5, dropped: 1, buffered: 4 }
  })
  const link = { installId: 'b', framesIn: 1, framesOut: 2, bytesIn: 30, bytesOut: 40, buffered: 7,
    dropped: 0 }
  t.match(dataPlane({
    inspection: { openStreams: () => 2, openCommands: () => 3, links: () => [link, link] },
    runners: [busy, runner],
    queues: [
      { capability: 'a@1.0.0', running: 1, waiting: 0 }, { capability: 'b@1.0.0', running: 2, waiting: 4 }
    ]
  }), {
    openStreams: 2, openCommands: 3, callsRunning: 3, callsWaiting: 4, runnerTasks: 2, runnerTasksWaiting: 3,
    chunksBuffered: 4, bytesBuffered: 14, chunksReceived: 26, chunksDropped: 1, framesIn: 2, framesOut: 4,
    bytesIn: 60, bytesOut: 80
  })
  t.same(countByName(['Timeout', 'TCPSocketWrap', 'Timeout']), { Timeout: 2, TCPSocketWrap: 1 })
  t.end()
})

t.test('the report says whether requests are traced, and warns of what is wrong', async (t) => {
  const fakes = [
    fake(TracingService, { enabled: true, counters: () => ({}) as never }),
    fake(EventLogService, eventLog({ mode: 'counting-only', counted: 12 }))
  ]
  const rig = await startPlugin(t, diagnostics, { fakes })
  t.match((await rig.inject({ url: '/v1/diagnostics/node' })).json(), {
    runtime: { tracingEnabled: true }, warnings: [/event log only counts \(12 so far\)/],
    warningCodes: ['event_log_counting']
  })
})

t.test('warnings name what to look at and the next step', (t) => {
  const well: WarningsInput = {
    node: 'attic', runners: [runner], resources: { eventLoopDelayMs: { p99: 20 } },
    stores: {
      eventLog: { mode: 'normal', counted: 0, dropped: 0 }, gossip: counters({ publishFailures: 0 }),
      shipping: { dropped: 0, failures: 0, problem: null }
    }
  }
  const runners = (more: Parameters<typeof runnerReport>[0]): object => ({ runners: [runnerReport(more)] })
  const stores = (more: object): object => ({ stores: { ...well.stores, ...more } })
  const table: [string, object, RegExp][] = [
    ['a late loop', { resources: { eventLoopDelayMs: { p99: 300.4 } } }, /delayed by up to 300 ms/],
    ['a runner given up', runners({ statusKind: 'RunnerFailed', restarts: 2 }),
      /Runner of svc\/voice-en on attic: given up after 2 restarts\. .*svc place/],
    ['a restarted runner', runners({ restarts: 1 }), /: 1 restart; it is ready again\.$/],
    ['a runner that hangs', runners({ inProgressTasks: ['t'], secondsSinceForward: 31, secondsInStatus: 40 }),
      /for 31 s\. .*svc why t`/],
    ['one that never gave anything',
      runners({ inProgressTasks: ['t'], secondsSinceForward: null, secondsInStatus: 40 }), /for 40 s\. Find/],
    ['dropped chunks', runners({ chunks: { received: 1, dropped: 2, buffered: 0 } }),
      /2 chunk\(s\) that were dropped/],
    ['a slow disk', stores({ eventLog: { mode: 'normal', counted: 0, dropped: 9 } }), /dropped 9 event/],
    ['lost log lines', stores({ shipping: { dropped: 5, failures: 1, problem: 'refused' } }),
      /5 dropped\): refused/],
    ['lost readings', stores({ gossip: counters() }), /3 reading\(s\) could not be sent/]
  ]
  t.same(warningsOf(well), [])
  t.same(warningsOf({ ...well, stores: { eventLog: null, shipping: null, gossip: null } }), [])
  const quiet = runnerReport({ inProgressTasks: ['t'], secondsSinceForward: 29, secondsInStatus: 40 })
  const fresh = runnerReport({ inProgressTasks: ['t'], secondsSinceForward: 900, secondsInStatus: 2 })
  t.same(warningsOf({ ...well, runners: [quiet, fresh] }), [])
  for (const [name, more, said] of table) {
    const found = warningsOf({ ...well, ...more })
    t.equal(found.length, 1, name)
    t.match(found[0]?.text, said, name)
    t.match(found[0]?.code, /^[a-z_]+$/, name)
  }
  t.end()
})

t.test('the document has every route of what is on, the same bytes for everybody', async (t) => {
  const base = { version: '1.0.0', kernel: '^1.0.0', summary: 'x' }
  const route = { method: 'GET', url: '/find/:id', authority: 'read', summary: 'x' } as const
  const finder = definePlugin({
    ...base, name: 'finder', routes: {
      find: route, talk: { method: 'GET', url: '/talk', authority: 'read', socket: true, summary: 'x' }
    }
  }, () => ({ routes: { find: () => ({}), talk: () => {} } }))
  const allow = ['plugin:manage']
  const rig = await startPlugin(t, diagnostics, { off: [finder], allow })
  const document = async (): Promise<Record<string, Record<string, object>>> => {
    const { openapi, paths } = (await rig.inject({ url: '/openapi.json' })).json() as
      { openapi: string, paths: Record<string, Record<string, object>> }
    t.equal(openapi, '3.1.0')
    return paths
  }
  t.notOk((await document())['/find/{id}'], 'its plugin is off')
  await rig.inject({ method: 'POST', url: '/v1/plugins/finder', payload: { enabled: true } })
  const paths = await document()
  t.match(paths['/find/{id}'], { get: { 'x-authority': 'read', operationId: 'finder.find' } })
  t.notOk(paths['/talk'], 'OpenAPI has no words for a WebSocket')
  const own = ['/healthz', '/readyz', '/state', '/config', '/v1/plugins', '/admin/restart', '/openapi.json']
  for (const path of own) t.ok(paths[path], path)

  const url = await rig.listen()
  const end = t.captureFn(ServerResponse.prototype.end)
  t.intercept(ServerResponse.prototype, 'end', { value: end })
  for (let i = 0; i < 2; i++) t.equal((await fetch(`${url}/openapi.json`)).status, 200)
  const [first, second] = end.args().map(([body]) => body as unknown)
  t.ok(Buffer.isBuffer(first) && first === second)
})
