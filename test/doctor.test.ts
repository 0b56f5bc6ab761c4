import t from 'tap'
import type { Test } from 'tap'
import { cli, sendError, sendJson, standIn } from '../kernel/test/cli-helpers.js'
import { bundled } from '../plugins/index.js'
import { checkClocks } from '../plugins/diagnostics/checks/cluster.js'
import { checkDiagnosis, clocksOf } from '../plugins/diagnostics/checks/inside.js'
import { checkEventLog } from '../plugins/event-log/cli/doctor.js'
import { checkEngines, checkModels, checkPressure } from '../plugins/runners/instances/report.js'
import { checkStore, checkVolume } from '../plugins/staging/doctor.js'
import type { Check } from '../kernel/cli/check.js'
import type { ModelState as State } from '../plugins/runners/instances/report.js'
import type { DiagnosedNode, Diagnosis, NodeDiagnostics } from '../plugins/diagnostics/checks/inside.js'

const GIB = 2 ** 30
const state = (more: Partial<State> = {}): State => ({
  masterNodeId: 'n1', localNodeId: 'n1', nodeHealth: {}, nodeCapabilities: {},
  nodeIdentities: { n1: { friendlyName: 'attic', svcVersion: '1', apiUrl: null } }, ...more
})
const placed = (status: Record<string, unknown> | undefined): State => state({
  instances: { i1: { RingInstance: { shardAssignments: { modelId: 'a/b', nodeToRunner: { n1: 'r1' } } } } },
  runners: status === undefined ? {} : { r1: status }
})

/** Asserts that the checks have the expected result, name and message, and remedy. */
const same = (
  t: Test, title: string, found: Check[], expected: [string, RegExp, RegExp | null][]
): void => {
  t.match(found.map(({ result, name, message, remedy }) => [result, `${name}: ${message}`, remedy]),
    expected, title)
  t.equal(found.length, expected.length, title)
}

t.test('placed models that do not answer', async (t) => {
  same(t, 'none', checkModels(state()), [])
  same(t, 'ready', checkModels(placed({ RunnerReady: {} })), [['ok', /models: 1 placed/, null]])
  same(t, 'busy', checkModels(placed({ RunnerRunning: {} })), [['ok', /models/, null]])
  same(t, 'loads', checkModels(placed({ RunnerLoading: {} })),
    [['warn', /model a\/b: RunnerLoading on attic/, /svc why a\/b/]])
  same(t, 'failed', checkModels(placed({ RunnerFailed: {} })),
    [['fail', /RunnerFailed on attic/, /svc why a\/b/]])
  same(t, 'no runner', checkModels(placed(undefined)), [['warn', /no runner on attic/, /svc why/]])
  same(t, 'odd', checkModels(state({ instances: { x: {} } })), [['ok', /models/, null]])
  same(t, 'waits', checkModels(state({ waitingInstances: { w: { modelId: 'a/c' } } })),
    [['warn', /model a\/c: waits for a place/, /svc why a\/c/]])
})

t.test('each engine, its devices, and why it uses no GPU', async (t) => {
  same(t, 'untold', checkEngines(state()), [])
  const nodeResources = { n1: {
    engineBackends: { 'llama-server': ['cpu'], 'onnx-tts': ['cuda', 'cpu'], other: [] },
    engines: { 'llama-server': { words: 'the llama.cpp in svc (cpu)' }, other: null },
    engineNotes: { 'llama-server': 'H200 is visible, but …' }
  }, n2: null }
  same(t, 'told', checkEngines({ ...state(), nodeResources }), [['ok', new RegExp('^engines on attic: ' +
    'llama-server: cpu \\(the llama\\.cpp in svc \\(cpu\\)\\); onnx-tts: cuda, cpu; ' +
    'other: its program is missing; H200 is visible, but …$'), null]])
})

t.test('memory, store, staging disk and event log', async (t) => {
  const memory = (available: number): State => state({
    nodeMemory: {
      n1: { ramTotal: { inBytes: 64 * GIB }, ramAvailable: { inBytes: available * GIB } }, n2: null
    }
  })
  same(t, 'enough', checkPressure(memory(4)), [])
  same(t, 'little', checkPressure(memory(2)),
    [['warn', /memory of attic: 2\.0 GiB free of 64\.0 GiB/, /svc ps/]])
  const room = (free: number): { freeBytes: number, totalBytes: number } =>
    ({ freeBytes: free * GIB, totalBytes: 100 * GIB })
  same(t, 'store', [checkStore(room(50)), checkStore(room(5)), checkStore(room(1))], [
    ['ok', /store: 50\.0 GiB free of 100 GiB/, null], ['warn', /5\.0 GiB/, /svc rm/],
    ['fail', /1\.0/, /svc rm/]
  ])
  const volume = (free: number): Check =>
    checkVolume({ diskFreeBytes: free * GIB, diskTotalBytes: 100 * GIB })
  same(t, 'staging', [volume(50), volume(1)],
    [['ok', /staging disk: 50/, null], ['fail', /staging disk/, /svc purge/]])
  const log = (mode: string, nextIdx = 9): Check => checkEventLog({ mode, counted: 7, firstIdx: 3, nextIdx })
  same(t, 'event log', [log('normal'), log('normal', 3), log('counting-only'), log('memory')], [
    ['ok', /events 3 to 8 are stored/, null], ['ok', /no events yet/, null],
    ['fail', /counted but not stored \(7 so far\)/, /Free disk space.*svc purge/],
    ['warn', /memory: events 3 to 8/, /svc logs/]
  ])
})

const runner = (more: object = {}): NodeDiagnostics['supervisorRunners'][0] => ({
  runnerId: 'r1', modelId: 'a/b', statusKind: 'RunnerReady', restarts: 0, inProgressTasks: [],
  secondsInStatus: 900, secondsSinceForward: 1, ...more
})
const inside = (more: Partial<NodeDiagnostics> = {}): DiagnosedNode => ({
  name: 'attic', nodeId: 'n1', live: true, error: null, clockAheadMs: null,
  diagnostics: { resources: {}, supervisorRunners: [runner()], warnings: [], ...more }
})
const diagnosis = (...nodes: DiagnosedNode[]): Diagnosis => ({ localNodeId: 'n1', nodes })

t.test('reports of the nodes about themselves', async (t) => {
  same(t, 'nothing', checkDiagnosis(diagnosis(inside())), [['ok', /no problem at 1 node$/, null]])
  const runners = [
    runner({ statusKind: 'RunnerFailed', restarts: 3 }), runner({ restarts: 1 }), runner({ restarts: 3 }),
    runner({ inProgressTasks: ['t1'], secondsSinceForward: 45 }), runner({ secondsSinceForward: 900 }),
    // A long idle time must not count for a runner that has just received a task.
    runner({ inProgressTasks: ['t2'], secondsSinceForward: 900, secondsInStatus: 2 }),
    runner({ modelId: 'never/gave', inProgressTasks: ['t3'], secondsSinceForward: null })
  ]
  same(t, 'runners', checkDiagnosis(diagnosis(inside({ supervisorRunners: runners }))), [
    ['fail', /runner of a\/b on attic: given up after 3 restarts/,
      /svc logs --node attic --model a\/b.*svc place/],
    ['ok', /: 1 restart; it is ready again/, null], ['warn', /: 3 restarts$/, /svc logs/],
    ['warn', /works on 1 requests, without output for 45 s/, /svc why t1/],
    ['warn', /never\/gave .*: works on 1 requests, without output for 900 s/, /svc why t3/]
  ])
  const resources = { eventLoopDelayMs: { p99: 400 }, heapUsedBytes: 1.9 * GIB, heapLimitBytes: 2 * GIB }
  same(t, 'process', checkDiagnosis(diagnosis(inside({ resources }))), [
    ['ok', /event loop of attic: delayed by up to 400 ms/, null],
    ['warn', /heap of attic: 1\.9 GiB/, /svc capture/]
  ])
  const warnings = ['Log lines are not taken at logging.ingest_url (7 dropped): ECONNREFUSED.',
    'The runner of a/b (r1) was started again 1 time(s).', 'The event loop was late.']
  const warningCodes = ['log_shipping_failed', 'runner_restarts', 'loop_was_late']
  same(t, 'warnings', checkDiagnosis(diagnosis(inside({ warnings, warningCodes }))),
    [['warn', /inside attic: Log lines .* \(7 dropped\)/, /svc config set logging\.ingest_url/]])
  t.equal(checkDiagnosis(diagnosis(inside({ warnings }))).length, 3, 'an older node gives no codes')
  const silent = { ...inside(), diagnostics: null, error: { reason: 'timeout', message: 'No answer.' } }
  same(t, 'silent', checkDiagnosis(diagnosis(silent)), [['warn', /inside attic: No answer/, /svc doctor/]])
  same(t, 'away', checkDiagnosis(diagnosis({ ...silent, live: false })), [['ok', /0 nodes/, null]])
})

t.test('a single node has no clock to compare with, and the check says so', async (t) => {
  same(t, 'one node', [checkClocks(clocksOf(diagnosis(inside())))],
    [['ok', /^clocks: no clock of another node to compare with$/, null]])
})

t.test('clocks by the links', async (t) => {
  const other = { ...inside(), name: 'barn', nodeId: 'n2', clockAheadMs: 9000 }
  t.same(clocksOf(diagnosis(inside(), other, { ...other, clockAheadMs: null })),
    [{ name: 'attic', aheadSeconds: 0 }, { name: 'barn', aheadSeconds: 9 }])
})

t.test('svc doctor reads all of it from the node, or works without it', async (t) => {
  const answers: Parameters<typeof standIn>[1] = {
    'GET /state': (response) => {
      sendJson(response, { ...placed({ RunnerFailed: {} }),
        cluster: { term: 1, quorum: 'ok', stale: false, partition: false, knownNodes: 1, liveNodes: 1 } })
    },
    'GET /readyz': (response) => { sendJson(response, {}) },
    'GET /v1/diagnostics/cluster': (response) => {
      sendJson(response, diagnosis(inside({ supervisorRunners: [runner({ restarts: 4 })] })))
    },
    'GET /store/health': (response) => { sendError(response, 503, 'store_unreachable') },
    'GET /store/storage': (response) => { sendJson(response, { diskFreeBytes: 1, diskTotalBytes: GIB }) },
    'GET /events': (response) => {
      sendJson(response, { mode: 'counting-only', counted: 5, firstIdx: 1, nextIdx: 2 })
    }
  }
  const node = await standIn(t, answers)
  const ran = await cli(['doctor', '--json', '--url', node.url, '--home', t.testdir({})],
    { plugins: bundled })
  t.equal(ran.status, 1)
  const { checks } = JSON.parse(ran.out) as { checks: Check[] }
  const results = Object.fromEntries(checks.map(({ name, result }) => [name, result]))
  t.match(results, {
    'model a/b': 'fail', store: 'fail', 'staging disk': 'fail', 'event log': 'fail',
    'runner of a/b on attic': 'warn'
  })
  t.ok(checks.every(({ result, remedy }) => result === 'ok' || (remedy ?? '') !== ''), 'each with what to do')
  t.ok(node.asked.some(({ url }) => url === '/events?limit=1'))
})
