import { readFileSync } from 'node:fs'
import t from 'tap'
import {
  ClusterService, definePlugin, InspectionService, LogRingService, SessionService, GossipService, type Gpu,
  type Traffic
} from '../../../kernel/index.js'
import { fake, startPlugin, type Fake, type Rig } from '../../../kernel/testing/index.js'
import { EventLogService } from '../../event-log/service.js'
import { RunnersService, RunnerWorkService, type RunnerReport } from '../../runners/service.js'
import { ModelsService } from '../../staging/service.js'
import { TracingService } from '../../tracing/service.js'
import diagnostics from '../index.js'
import { CounterFeed } from '../metrics/meters.js'
import { startMetrics } from '../metrics/index.js'
import { histogramProblems, readExposition, type Family } from './exposition.js'
import { counters, endedTask, eventLog, fakeCluster, runnerReport, runnerWork } from './kit.js'
import { ShippingService } from '../../logs/service.js'
import { parseSmi } from '../../runners/machine/gpu.js'
import type { CallOutcome, Calls } from '../../capabilities/service.js'

const root = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')

const [h200] = parseSmi('NVIDIA H200, 50, 143771, 1100, 78.77, 38\n') as [Gpu]

/** Fakes for a node on which every counter has counted something. */
function busy (runners: () => readonly RunnerReport[] = () => [runnerReport()]) {
  const work = runnerWork()
  const session = { sessionId: 's1', isMaster: true, masterNodeId: 'id-me' as string | null }
  const told = counters()
  const log = { nextSeq: 11 }
  const inspection = {
    openStreams: () => 1, openCommands: () => 2,
    links: () => [{ installId: 'b', framesIn: 1, framesOut: 2, bytesIn: 30, bytesOut: 40, buffered: 5,
      dropped: 6 }],
    plugins: () => [], warnings: () => [], url: () => null, dials: () => [],
    config: () => ({ file: '', entries: [] })
  }
  const fakes: Fake[] = [
    fake(RunnersService, { reports: () => [...runners()] }),
    fake(RunnerWorkService, work),
    fake(ClusterService, fakeCluster({}, ['away']) as never),
    fake(SessionService, { ...session, onChange: () => () => {} }),
    fake(GossipService, { counters: () => told }),
    fake(InspectionService, inspection),
    fake(EventLogService, eventLog()),
    fake(LogRingService, log as never),
    fake(ShippingService, { shipping: { sent: 7, dropped: 2 } } as never),
    fake(ModelsService, {
      located: () => [
        { kind: 'staged', card: { totalBytes: 1000 } }, { kind: 'bundled', card: { totalBytes: 5 } }
      ] as never
    }),
    fake(TracingService, {
      enabled: true,
      counters: () => ({
        recorded: 9, written: 5, droppedQueue: 1, droppedDisk: 2, droppedSpans: 0, exported: 3,
        exportDropped: 0
      })
    })
  ]
  return { fakes, work, told }
}

async function scrape (rig: Rig): Promise<Map<string, Family>> {
  const answer = await rig.inject({ url: '/metrics' })
  t.equal(answer.statusCode, 200)
  return readExposition(answer.body)
}

const valueOf = (
  families: Map<string, Family>, name: string, labels: Record<string, string> = {}
): number => {
  const samples = [...families.values()].flatMap((family) => family.samples)
  const found = samples.find((sample) => sample.name === name &&
    Object.entries(labels).every(([key, value]) => sample.labels[key] === value))
  return found?.value ?? NaN
}

t.test('the reader of the format refuses what the format does not allow', (t) => {
  const head = '# HELP a_total A.\n# TYPE a_total counter\n'
  t.equal(readExposition(`${head}a_total{x="1",y="\\"q"} 3\n`).get('a_total')?.samples[0]?.value, 3)
  const wrong = [
    `${head}a_total 1`, 'a_total 1\n', '# TYPE a_total counter\n', `${head}${head}`, `${head}b_total 1\n`,
    `${head}a_total x\n`, `${head}a_total{x=1} 1\n`, `${head}a_total{x="1",x="2"} 1\n`,
    `${head}a_total 1\na_total 2\n`, '# HELP a A.\n# TYPE a number\n', `${head}a_total_bucket 1\n`
  ]
  for (const text of wrong) t.throws(() => readExposition(text), Error, text)
  const histogram = (...counts: number[]): string => '# HELP h H.\n# TYPE h histogram\n' +
    counts.map((n, i) => `h_bucket{le="${i === counts.length - 1 ? '+Inf' : i}"} ${n}\n`).join('') +
    'h_count 3\n'
  t.same(histogramProblems(readExposition(histogram(1, 2, 3)).get('h')!), [])
  t.equal(histogramProblems(readExposition(histogram(2, 1, 3)).get('h')!).length, 1)
  t.equal(histogramProblems(readExposition(histogram(1, 2, 2)).get('h')!).length, 1)
  t.end()
})

const UNIT =
  /_(seconds|bytes|ratio|celsius|watts|total|info|length|index|mode|enabled|known|master|nodes|links|models)$/
/** Metrics that count things, so their names do not end in a unit. */
const THINGS = new Set([
  'svc_calls_running', 'svc_calls_waiting', 'svc_open_streams', 'svc_open_commands', 'svc_runners',
  'svc_runner_slots', 'svc_runner_slots_used', 'svc_runner_chunks_buffered', 'svc_finding'
])

t.test('every metric has a help, a type and a unit after the conventions, and few labels', async (t) => {
  const { fakes, work } = busy()
  const rig = await startPlugin(t, diagnostics, { fakes })
  work.ended(endedTask({ audioSeconds: 2 }))
  const answer = await rig.inject({ url: '/metrics' })
  t.match(answer.headers['content-type'], /^text\/plain; version=0\.0\.4; charset=utf-8$/)
  const families = readExposition(answer.body)
  const own = [...families.values()].filter(({ name }) => name.startsWith('svc_'))
  t.ok(own.length > 50, `${own.length} metrics`)
  const samples = own.flatMap((family) => family.samples)
  const labels = new Set(samples.flatMap((sample) => Object.keys(sample.labels)))
  t.same([...labels].sort(), ['capability', 'class', 'direction', 'kind', 'le', 'mode', 'model', 'outcome',
    'result', 'state', 'status', 'version'].filter((label) => labels.has(label)))
  for (const { name, type, help, samples } of own) {
    t.ok(UNIT.test(name) || THINGS.has(name), `${name} has a unit`)
    t.equal(name.endsWith('_total'), type === 'counter', `${name} is a ${type}`)
    t.match(help, /^[A-Z0-9].*\.$/, name)
    t.notMatch(name, /milliseconds|_ms|_mb|_percent|_kib/)
    t.ok(samples.every(({ value }) => !Number.isNaN(value) && value >= 0), name)
  }
  const usual = ['process_cpu_seconds_total', 'process_resident_memory_bytes', 'nodejs_eventloop_lag_seconds']
  for (const name of usual) t.ok(families.has(name), name)
  for (const family of own.filter(({ type }) => type === 'histogram')) {
    t.same(histogramProblems(family), [], family.name)
  }
})

t.test('what goes on is counted, and counters only rise', async (t) => {
  let runner = runnerReport(
    { restarts: 1, waitedSeconds: 2.5, waitingTasks: 3, slotsTaken: 1, inProgressTasks: ['t'] })
  const { fakes, work, told } = busy(() => [runner])
  const rig = await startPlugin(t, diagnostics, { fakes })
  work.ended(endedTask())
  work.ended(endedTask({ status: 'Failed', firstSeconds: null, tokens: null }))
  work.ended(endedTask({ entered: false, audioSeconds: 1.5 }))
  work.ended(endedTask({ served: false }))
  rig.kernel.bus.emit('kernel', 'MasterElected', { sessionId: 's', term: 1, masterNodeId: 'id-me' })
  rig.kernel.bus.emit('kernel', 'MasterElected', { sessionId: 's', term: 1, masterNodeId: 'id-other' })
  await rig.inject({ url: '/nowhere' })
  await rig.inject({ url: '/healthz' })
  const first = await scrape(rig)
  const expected: [string, Record<string, string>, number][] = [
    ['svc_tasks_total', { capability: 'chat', status: 'Complete' }, 2],
    ['svc_tasks_total', { status: 'Failed' }, 1],
    ['svc_task_first_output_seconds_count', { capability: 'chat' }, 2],
    ['svc_task_duration_seconds_sum', { capability: 'chat' }, 4.5],
    ['svc_generated_tokens_total', { model: 'test/chat' }, 40],
    ['svc_prompt_tokens_total', { model: 'test/chat' }, 20],
    ['svc_prompt_tokens_cached_total', { model: 'test/chat' }, 8],
    ['svc_audio_seconds_total', { model: 'test/chat' }, 1.5],
    ['svc_http_requests_total', { class: 'none', status: '404' }, 1],
    ['svc_http_requests_total', { class: 'kernel', status: '200' }, 1],
    ['svc_cluster_elections_won_total', {}, 1],
    ['svc_events_total', { kind: 'MasterElected' }, 2],
    ['svc_cluster_nodes', { state: 'live' }, 1], ['svc_cluster_nodes', { state: 'gone' }, 1],
    ['svc_cluster_is_master', {}, 1],
    ['svc_cluster_link_bytes_total', { direction: 'out' }, 40], ['svc_cluster_link_buffered_bytes', {}, 5],
    ['svc_cluster_messages_dropped_total', {}, 6],
    ['svc_runners', { model: 'svc/voice-en', status: 'RunnerReady' }, 1],
    ['svc_runner_restarts_total', {}, 1], ['svc_runner_queue_seconds_total', {}, 2.5],
    ['svc_runner_queue_length', {}, 3], ['svc_runner_slots', {}, 2], ['svc_runner_slots_used', {}, 1],
    ['svc_runner_resident_memory_bytes', {}, 1000], ['svc_runner_chunks_total', {}, 21],
    ['svc_telemetry_readings_total', { result: 'published' }, 32],
    ['svc_telemetry_last_publish_age_seconds', {}, 1.5],
    ['svc_event_log_mode', { mode: 'normal' }, 1], ['svc_event_log_mode', { mode: 'counting-only' }, 0],
    ['svc_event_log_stored_bytes', {}, 4096], ['svc_event_log_last_index', {}, 42],
    ['svc_staged_bytes', {}, 1000], ['svc_staged_models', {}, 1],
    ['svc_log_lines_total', {}, 10], ['svc_log_lines_shipped_total', { result: 'dropped' }, 2],
    ['svc_traces_total', { result: 'dropped' }, 3], ['svc_tracing_enabled', {}, 1],
    ['svc_open_streams', {}, 1], ['svc_open_commands', {}, 2], ['svc_build_info', { version: '0.0.0' }, 1]
  ]
  for (const [name, labels, value] of expected) {
    t.equal(valueOf(first, name, labels), value, `${name} ${JSON.stringify(labels)}`)
  }
  // The runner restarts before the second scrape, and another one replaces it before the third.
  runner = runnerReport({ restarts: 0, completedTaskCount: 2, admittedTaskCount: 0 })
  told.lastSuccessfulPublishAgeSeconds = null
  const second = await scrape(rig)
  runner = runnerReport({ runnerId: 'r2', modelId: 'other', restarts: 4 })
  const third = await scrape(rig)
  t.equal(valueOf(second, 'svc_runner_tasks_completed_total', { model: 'svc/voice-en' }), 9)
  t.equal(valueOf(third, 'svc_runner_restarts_total', { model: 'other' }), 4)
  t.ok(Number.isNaN(valueOf(third, 'svc_runners', { model: 'svc/voice-en' })), 'no gauge of what is gone')
  t.ok(Number.isNaN(valueOf(second, 'svc_telemetry_last_publish_age_seconds')))
  for (const [before, after] of [[first, second], [second, third]] as const) {
    for (const { name, type, samples } of before.values()) {
      if (type !== 'counter') continue
      for (const sample of samples) {
        t.ok(valueOf(after, sample.name, sample.labels) >= sample.value, `${name} does not fall`)
      }
    }
  }
})

t.test('models that move are counted by their events', async (t) => {
  const declared = { plane: 'durable', summary: 'x', payload: { type: 'object' } } as const
  const staging = definePlugin({
    name: 'mover', version: '1.0.0', kernel: '^1.0.0', summary: 'Moves models.',
    events: {
      NodeDownloadProgress: declared, DownloadFailed: declared, StagedModelEvicted: declared,
      StagingPurged: declared
    }
  }, () => ({}))
  const rig = await startPlugin(t, diagnostics, { plugins: [staging], fakes: busy().fakes })
  const tell = (kind: string, payload: Record<string, unknown>): void => {
    rig.kernel.bus.emit('mover', kind, payload)
  }
  tell('NodeDownloadProgress', { status: 'pending', totalBytes: 0 })
  tell('NodeDownloadProgress', { status: 'completed', totalBytes: 700 })
  tell('NodeDownloadProgress', { status: 'completed', totalBytes: -3 })
  tell('DownloadFailed', {})
  tell('StagedModelEvicted', { freedBytes: 30 })
  tell('StagingPurged', { freedBytes: 12 })
  const families = await scrape(rig)
  const figures = ['started', 'completed', 'failed'].map((result) =>
    valueOf(families, 'svc_downloads_total', { result }))
  t.same(figures, [1, 2, 1])
  t.equal(valueOf(families, 'svc_downloaded_bytes_total'), 700)
  t.equal(valueOf(families, 'svc_staging_freed_bytes_total'), 42)
})

t.test('calls are counted with how long they waited', async (t) => {
  const traffic: Traffic = { onAnswer: () => () => {} }
  let ended = (_outcome: CallOutcome): void => {}
  const calls: Calls = {
    onEnd: (fn) => { ended = fn; return () => {} },
    queues: () => [{ capability: 'tts@1.0.0', running: 4, waiting: 2 }]
  }
  const { work, told } = busy()
  const metrics = startMetrics({
    version: '1', home: '/nowhere/at/all', traffic, calls, work, runners: () => [], capabilities: [],
    inspection: { openStreams: () => 0, openCommands: () => 0, links: () => [] },
    session: { sessionId: 's', isMaster: false, masterNodeId: null, onChange: () => () => {} },
    cluster: fakeCluster({}), tap: { onDurable: () => () => {} }, gossip: { counters: () => told },
    log: undefined, ship: undefined, eventLog: undefined, models: undefined, tracing: undefined,
    machine: {
      lastGpus: () => ({ atMs: 0, gpus: [h200, { ...h200, powerWatts: null }], vramByPid: new Map() })
    }
  } as unknown as Parameters<typeof startMetrics>[0])
  t.teardown(metrics.stop)
  const outcome: CallOutcome = {
    callId: 'c', commandId: 'd', requestId: 'r', capability: 'tts@1.0.0', callerId: 'x', kind: 'completed',
    reason: null, taskId: null, passedOn: false, seconds: 2, queuedSeconds: 0.5
  }
  ended(outcome)
  ended({ ...outcome, kind: 'cancelled', queuedSeconds: null })
  const warned = { code: 'disk_full', severity: 'warn' }
  await metrics.text([warned, { code: 'node_lost', severity: 'error' }])
  const families = readExposition(await metrics.text([warned, warned]))
  t.strictSame(families.get('svc_finding')?.samples.map(({ labels, value }) => [labels, value]),
    [[warned, 2]], 'ended ones are gone')
  t.equal(valueOf(families, 'svc_calls_total', { outcome: 'completed', capability: 'tts@1.0.0' }), 1)
  t.equal(valueOf(families, 'svc_calls_total', { outcome: 'cancelled' }), 1)
  t.equal(valueOf(families, 'svc_call_duration_seconds_count'), 2)
  t.equal(valueOf(families, 'svc_call_queue_seconds_sum'), 0.5)
  t.same([valueOf(families, 'svc_calls_running'), valueOf(families, 'svc_calls_waiting')], [4, 2])
  const ofGpu = (name: string, gpu: string): unknown =>
    valueOf(families, `svc_gpu_${name}`, { gpu, name: 'NVIDIA H200' })
  t.same(['memory_bytes', 'memory_used_bytes', 'utilization_ratio', 'temperature_celsius', 'power_watts']
    .map((name) => ofGpu(name, '0')), [143_771 * 1024 ** 2, 1100 * 1024 ** 2, 0.5, 38, 78.77])
  t.equal(families.get('svc_gpu_power_watts')?.samples.length, 1, 'what a GPU does not tell is left out')
  t.notOk(families.has('svc_event_log_mode'), 'what is not there has no figures')
  t.equal(families.get('svc_home_free_bytes')?.samples.length, 0, 'nor has a disk that cannot be asked')
})

t.test('a session change and a lost master are seen', async (t) => {
  const session = { sessionId: 's1', isMaster: false, masterNodeId: 'm' as string | null }
  let changed = (): void => {}
  const service = {
    get sessionId () { return session.sessionId },
    get isMaster () { return session.isMaster },
    get masterNodeId () { return session.masterNodeId },
    onChange: (fn: () => void) => { changed = fn; return () => {} }
  }
  const rig = await startPlugin(t, diagnostics, { fakes: [...busy().fakes, fake(SessionService, service)] })
  session.masterNodeId = null
  changed()
  changed()
  Object.assign(session, { sessionId: 's2', masterNodeId: 'n', isMaster: true })
  changed()
  const families = await scrape(rig)
  t.equal(valueOf(families, 'svc_cluster_master_losses_total'), 1)
  t.equal(valueOf(families, 'svc_cluster_session_changes_total'), 1)
  t.same(['svc_cluster_is_master', 'svc_cluster_master_known'].map((name) => valueOf(families, name)), [1, 1])
})

t.test('metrics take the read authority, and no other plugin', async (t) => {
  const alone = await startPlugin(t, diagnostics, { allow: ['read'] })
  readExposition((await alone.inject({ url: '/metrics' })).body)
  const weak = await startPlugin(t, diagnostics, { allow: ['invoke'] })
  t.equal((await weak.inject({ url: '/metrics' })).statusCode, 401)
})

t.test('a total that falls began anew', (t) => {
  const risen: number[] = []
  const counter = { inc: (_labels: object, by: number) => { risen.push(by) } } as never
  const feed = new CounterFeed()
  for (const total of [0, 5, 5, 9, 2]) feed.follow(counter, {}, 'a', total)
  feed.keep((key) => key !== 'a')
  feed.follow(counter, {}, 'a', 3)
  t.same(risen, [0, 5, 0, 4, 2, 3])
  t.end()
})

t.test('fifty instances are in one answer', async (t) => {
  const many = Array.from({ length: 50 }, (_, i) =>
    runnerReport({ runnerId: `r${i}`, modelId: `test/model-${i}` }))
  const { fakes, work } = busy(() => many)
  const rig = await startPlugin(t, diagnostics, { fakes })
  for (const { modelId } of many) work.ended(endedTask({ modelId }))
  const get = async (): Promise<string> => (await rig.inject({ url: '/metrics' })).body
  const [lines] = [(await get()).split('\n').length, await get(), await get()]
  const [start, before] = [performance.now(), process.cpuUsage()]
  for (let i = 0; i < 20; i++) await get()
  const { user, system } = process.cpuUsage(before)
  const [cpu, wall] = [(user + system) / 20_000, (performance.now() - start) / 20]
  t.comment(`GET /metrics with 50 instances, ${lines} lines: ${cpu.toFixed(1)} ms of processor, ` +
    `${wall.toFixed(1)} ms`)
  t.equal((await scrape(rig)).get('svc_runners')?.samples.length, 50)
})

/** Finds the names of svc, process and Node metrics in a string. */
const namesIn = (text: string): string[] =>
  [...new Set(text.match(/\b(svc|process|nodejs)_[a-z0-9_]+\b/g) ?? [])]

t.test('the dashboard and the README name metrics that are there', async (t) => {
  const { fakes, work } = busy()
  const rig = await startPlugin(t, diagnostics, { fakes })
  work.ended(endedTask({ audioSeconds: 1 }))
  const families = await scrape(rig)
  const known = new Set([...families.values()].flatMap(({ name, type }) =>
    type === 'histogram' ? ['', '_bucket', '_sum', '_count'].map((ending) => name + ending) : [name]))
  const dashboard = JSON.parse(root('docs/grafana/svc.json')) as {
    title: string, panels: { id: number, title: string, type: string, targets?: { expr: string }[] }[]
  }
  const exprs = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  const named = namesIn(exprs.join('\n'))
  t.ok(named.length > 25, `${named.length} metrics on the dashboard`)
  for (const name of named) t.ok(known.has(name), `the dashboard shows ${name}`)
  t.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length, 'ids of panels')
  for (const { title, type, targets = [] } of dashboard.panels) {
    t.ok(type === 'row' || targets.length > 0, title)
  }
  const readme = root('plugins/diagnostics/README.md')
  for (const name of namesIn(readme)) t.ok(known.has(name), `the README names ${name}`)
  const told = new Set(namesIn(readme))
  for (const { name } of families.values()) {
    if (name.startsWith('svc_')) t.ok(told.has(name), `the README tells of ${name}`)
  }
})
