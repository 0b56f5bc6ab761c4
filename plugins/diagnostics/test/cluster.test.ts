import { PassThrough } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { ClusterService, StateService } from '../../../kernel/index.js'
import { fake, manualClock, startPlugin } from '../../../kernel/testing/index.js'
import { EventLogService } from '../../event-log/service.js'
import { RunnersService } from '../../runners/service.js'
import { askAll, PEER_BYTES, PEER_MS } from '../fan-out.js'
import diagnostics from '../index.js'
import { mergeTimeline, openTasks, ownMoments, readMoments, rememberEvents } from '../timeline.js'
import { answer, eventLog, fakeCluster, nodeView, runnerReport } from './kit.js'
import type { Caller } from '../../../kernel/index.js'
import type { PeerAnswer, Question } from '../fan-out.js'
import type { NodeMoments } from '../timeline.js'
import type { Answer } from './kit.js'

const caller: Caller = { id: 'ann', mode: 'direct', authorities: new Set(['operator']) }
const START = Date.parse('2026-01-01T00:00:00.000Z')
const at = (ms: number): string => new Date(START + ms).toISOString()

interface Told { generatedAt: string }
const question: Question<Told> = {
  path: '/x', caller, signal: new AbortController().signal,
  own: () => ({ generatedAt: 'own' }),
  read: (sent) => typeof (sent as Told).generatedAt === 'string' ? sent as Told : null,
  timeOf: ({ generatedAt }) => generatedAt
}

t.test('a node that is silent or talks nonsense is named and holds nobody up', async (t) => {
  const clock = manualClock()
  const endless = new PassThrough()
  endless.write('{"generatedAt":')
  const silent: Answer = () => new Promise(() => {})
  const others: Record<string, Answer> = {
    good: () => answer({ generatedAt: at(7000) }),
    silent,
    deaf: () => new Promise(() => {}),
    endless: () => ({ status: 200, headers: {}, body: endless }),
    garbage: () => answer('<html>'),
    list: () => answer([]),
    nothing: () => answer('null'),
    timeless: () => answer({ generatedAt: 'soon' }),
    refuses: () => answer({ error: { reason: 'missing_grant' } }, 403),
    breaks: () => { throw new Error('boom') },
    large: () => answer(`"${'x'.repeat(PEER_BYTES)}"`)
  }
  const cluster = fakeCluster(others, ['away'])
  const asking = askAll({ cluster, clock }, question)
  for (let i = 0; i < 50; i++) await turn()
  clock.advance(PEER_MS)
  const answers = await asking
  const said = Object.fromEntries(answers.map(({ node, value, error }) =>
    [node.name, error?.reason ?? value]))
  t.same(said, {
    me: { generatedAt: 'own' }, good: { generatedAt: at(7000) }, silent: 'timeout', deaf: 'timeout',
    endless: 'timeout', garbage: 'garbage', list: 'garbage', nothing: 'garbage', timeless: 'garbage',
    refuses: 'refused', breaks: 'unreachable', large: 'too_large', away: 'no_sign_of_life'
  })
  t.ok(endless.destroyed, 'what nobody reads any more is given up')
  t.notOk(cluster.asked.some(({ to }) => to === 'install-away'), 'a node that is gone is not asked')
  t.match(cluster.asked[0]!.request, { method: 'GET', path: '/x', caller: { id: 'ann' }, timeoutMs: PEER_MS })
  t.match(answers[1]!.clock, { offsetMs: 7000 - (clock.now() - START - PEER_MS), uncertaintyMs: 0 })
})

t.test('the offset of a clock is taken from the middle of the way', async (t) => {
  const clock = manualClock()
  const slow: Answer = async () => {
    clock.advance(400)
    return answer({ generatedAt: new Date(clock.now() + 10_000).toISOString() })
  }
  const [, slowly] = await askAll({ cluster: fakeCluster({ slow }), clock }, question)
  t.match(slowly, { tookMs: 400, clock: { offsetMs: 10_200, uncertaintyMs: 200 } })
})

t.test('an asker that goes away ends the questions', async (t) => {
  const stop = new AbortController()
  const cluster = fakeCluster({ b: () => new Promise(() => {}) })
  const asking = askAll({ cluster, clock: manualClock() },
    { ...question, signal: stop.signal })
  stop.abort(new Error('gone'))
  t.match((await asking)[1], { error: { reason: 'unreachable' } })
})

t.test('GET /v1/diagnostics/cluster has a report of every node', async (t) => {
  const report = { generatedAt: at(0), runtime: { nodeId: 'id-b' }, supervisorRunners: [] }
  const cluster = fakeCluster({ b: () => answer(report), c: () => answer({ runtime: null }) }, ['d'])
  const rig = await startPlugin(t, diagnostics, { fakes: [fake(ClusterService, cluster as never)] })
  const reply = await rig.inject({ url: '/v1/diagnostics/cluster' })
  t.equal(reply.statusCode, 200, reply.body)
  t.match(reply.json(), {
    localNodeId: String,
    nodes: [
      {
        name: 'me', error: null, tookMs: null, clockAheadMs: null,
        diagnostics: { runtime: { pid: process.pid } }
      },
      { name: 'b', error: null, tookMs: Number, clockAheadMs: Number, diagnostics: report },
      { name: 'c', error: { reason: 'garbage' }, diagnostics: null },
      { name: 'd', live: false, error: { reason: 'no_sign_of_life' }, diagnostics: null }
    ]
  })
  t.same(cluster.asked.map(({ request }) => request.path), ['/v1/diagnostics/node', '/v1/diagnostics/node'])
  const weak = await startPlugin(t, diagnostics, { allow: ['read', 'invoke', 'cluster:write'] })
  for (const path of ['cluster', 'cluster/timeline', 'node/timeline']) {
    t.equal((await weak.inject({ url: `/v1/diagnostics/${path}` })).statusCode, 401, path)
  }
})

const moments = (nodeId: string, ...list: [number, string][]): NodeMoments => ({
  nodeId, generatedAt: at(0),
  moments: list.map(([ms, kind]) => ({ type: 'event', at: at(ms), kind, payload: {} }))
})
const told = (name: string, value: NodeMoments | null, aheadMs = 0): PeerAnswer<NodeMoments> => ({
  node: nodeView(name, { self: name === 'a' }), value, tookMs: 1,
  clock: { offsetMs: aheadMs, uncertaintyMs: 3.2 },
  error: value === null ? { reason: 'timeout', message: 'late' } : null
})

t.test('the timeline is one order over all nodes, with the clocks put right', (t) => {
  const input = {
    generatedAt: at(9), sinceMs: null, limit: 10, logged: [],
    answers: [
      told('a', moments('id-a', [1, 'one'], [1, 'also one'], [30, 'four'])),
      told('b', moments('id-b', [3_600_020, 'three'], [3_600_010, 'two']), 3_600_000),
      told('c', null)
    ],
    tasks: [{
      type: 'task' as const, at: at(25), taskId: 't', commandId: 'c', modelId: 'm', capability: 'chat',
      status: 'Running', nodeId: 'id-b'
    }]
  }
  const whole = mergeTimeline(input)
  t.same(whole.entries.map((entry) => [entry.at.slice(17, -1), entry.node,
    entry.type === 'event' ? entry.kind : entry.type]), [
    ['00.001', 'a', 'one'], ['00.001', 'a', 'also one'], ['00.010', 'b', 'two'], ['00.020', 'b', 'three'],
    ['00.025', 'b', 'task'], ['00.030', 'a', 'four']
  ])
  t.same(whole.nodes, [
    { nodeId: 'id-a', name: 'a', error: null, clockAheadMs: 0, clockUncertaintyMs: 4 },
    { nodeId: 'id-b', name: 'b', error: null, clockAheadMs: 3_600_000, clockUncertaintyMs: 4 },
    { nodeId: 'id-c', name: 'c', error: { reason: 'timeout', message: 'late' }, clockAheadMs: 0,
      clockUncertaintyMs: 4 }
  ])
  t.match(whole, { localNodeId: 'id-a', more: false })
  const newest = mergeTimeline({ ...input, limit: 2 })
  t.match(newest, { entries: [{ type: 'task' }, { kind: 'four' }], more: true })
  t.equal(newest.entries.length, 2)
  const later = mergeTimeline({ ...input, sinceMs: START + 20 })
  t.same(later.entries.map(({ type }) => type), ['event', 'task', 'event'])
  t.end()
})

t.test('an offset within its uncertainty moves nothing', (t) => {
  const input = { generatedAt: at(9), sinceMs: null, limit: 10, tasks: [], logged: [] }
  const orderOf = (aheadMs: number): string[] => mergeTimeline({
    ...input,
    answers: [told('a', moments('id-a', [2, 'first'])), told('b', moments('id-b', [4, 'then']), aheadMs)]
  }).entries.map((entry) => entry.type === 'event' ? entry.kind : '')
  t.same([3, -3, 4].map(orderOf), [['first', 'then'], ['first', 'then'], ['then', 'first']])
  t.end()
})

t.test('of the event log, the timeline has what nodes do not tell themselves', (t) => {
  const logged = ([
    [5, 'id-a', 'told anyway'], [2, 'id-a-before', 'earlier start'], [7, 'id-c', 'silent node']
  ] as const).map(([ms, origin, kind], i) =>
    ({ idx: i + 1, at: at(ms), origin, sessionId: 's', id: `e${i}`, event: { [kind]: { n: i } } }))
  const { entries } = mergeTimeline({
    generatedAt: at(9), sinceMs: null, limit: 10, tasks: [], logged,
    answers: [told('a', moments('id-a', [5, 'told anyway'])), told('c', null)]
  })
  t.match(entries, [
    { kind: 'earlier start', payload: { n: 1 }, nodeId: 'id-a-before', node: null },
    { kind: 'told anyway', node: 'a' },
    { kind: 'silent node', node: 'c', at: at(7) }
  ])
  t.equal(entries.length, 3)
  t.end()
})

t.test('times that no date can be leave the rest of the timeline as it is', (t) => {
  const farthest = 8.64e15
  const input = { generatedAt: at(9), sinceMs: null, limit: 10, tasks: [], logged: [] }
  const { entries, nodes } = mergeTimeline({
    ...input,
    answers: [
      told('a', moments('id-a', [2, 'own'])), told('b', moments('id-b', [4, 'nowhere']), -farthest)
    ]
  })
  t.match(entries, [{ kind: 'own' }])
  t.equal(entries.length, 1)
  t.match(nodes[1], { name: 'b', clockAheadMs: -farthest })
  t.end()
})

t.test('open tasks come with the node whose runner has them', (t) => {
  const task = (taskId: string, status: string, instanceId: string): object =>
    ({ Inference: {
      taskId, commandId: 'c', modelId: 'm', capability: 'tts', instanceId, status, createdAt: at(1)
    } })
  const tasks = {
    t1: task('t1', 'Running', 'i1'), t2: task('t2', 'Complete', 'i1'), t3: task('t3', 'Pending', 'i2'), t4: {}
  }
  const instances = { i1: { RingInstance: { shardAssignments: { nodeToRunner: { 'id-b': 'r' } } } } }
  t.match(openTasks({ tasks, instances }), [
    { taskId: 't1', nodeId: 'id-b', status: 'Running', at: at(1) }, { taskId: 't3', nodeId: null }
  ])
  t.same(openTasks({}), [])
  t.end()
})

t.test('what another node tells is checked', (t) => {
  const event = { type: 'event', at: at(1), kind: 'NodeJoined', payload: {} }
  const runner = { type: 'runner', at: at(1), runnerId: 'r', modelId: 'm', what: 'w' }
  const whole = { nodeId: 'n', generatedAt: at(0), moments: [event, runner] }
  t.same(readMoments(whole), whole)
  const wrong: unknown[] = [
    null, 7, [], {}, { ...whole, nodeId: 1 }, { ...whole, moments: {} },
    ...[null, 1, {}, { ...event, at: 'never' }, { ...event, payload: null }, { ...event, kind: 3 },
      { ...runner, what: undefined }, { ...runner, type: 'spy' }].map((one) => ({ ...whole, moments: [one] }))
  ]
  for (const sent of wrong) t.equal(readMoments(sent), null, JSON.stringify(sent))
  t.end()
})

t.test('a node tells its own events and its flight recorders in order', async (t) => {
  const before = {
    idx: 1, at: at(-9), origin: 'before', sessionId: 's', id: 'e1',
    event: { NodeJoined: { nodeId: 'before' } }
  }
  const asked: number[] = []
  const flightRecorder = [
    { at: at(-5), what: 'process 1 started' }, { at: at(5), what: 'status RunnerReady' }
  ]
  const fakes = [
    fake(RunnersService, { reports: () => [runnerReport({ flightRecorder })] }),
    fake(ClusterService, fakeCluster({ b: () => answer('no') }) as never),
    fake(StateService, { read: async () => ({ tasks: {} }) }),
    fake(EventLogService, { ...eventLog(), newest: (limit) => { asked.push(limit); return [before] } })
  ]
  const rig = await startPlugin(t, diagnostics, { fakes })
  rig.kernel.bus.emit('kernel', 'NodeRestarted', { nodeId: 'x' })
  const own = (await rig.inject({ url: '/v1/diagnostics/node/timeline' })).json() as NodeMoments
  t.match(own.moments, [
    { type: 'runner', runnerId: 'r1', what: 'process 1 started' },
    { type: 'event', kind: 'NodeRestarted', payload: { nodeId: 'x' } },
    { type: 'runner', what: 'status RunnerReady' }
  ])
  const get = async (query: string) => await rig.inject({ url: `/v1/diagnostics/cluster/timeline${query}` })
  const all = (await get('')).json() as { entries: unknown[] }
  t.match(all, {
    nodes: [{ name: 'me', error: null }, { name: 'b', error: { reason: 'garbage' } }], more: false
  })
  t.match(all.entries[0], { kind: 'NodeJoined', nodeId: 'before', node: null }, 'of an earlier start')
  t.equal(all.entries.length, 4)
  t.match((await get('?limit=1')).json(),
    { entries: [{ what: 'status RunnerReady', node: 'me' }], more: true })
  const since = (await get(`?since=${at(1)}`)).json() as { entries: unknown[] }
  t.equal(since.entries.length, 1)
  t.same(asked, [1000, 1, 1000])
  for (const query of ['?since=yesterday.', '?limit=0', '?limit=10000', '?limit=x', '?until=1']) {
    const refused = await get(query)
    t.match([refused.statusCode, refused.json()], [400, { error: { reason: 'invalid_request' } }], query)
  }
})

t.test('events beyond the newest thousand are forgotten', (t) => {
  let tell = (_event: { kind: string, payload: Record<string, unknown> }): void => {}
  const events = rememberEvents({ onDurable (fn) { tell = fn; return () => {} } }, manualClock())
  for (let i = 0; i < 1005; i++) tell({ kind: 'NodeJoined', payload: { i } })
  const kept = ownMoments(events.list(), [])
  t.equal(kept.length, 1000)
  t.match([kept[0], kept.at(-1)], [{ payload: { i: 5 } }, { payload: { i: 1004 } }])
  t.end()
})
