import t from 'tap'
import { commandsIn } from '../page/ui/text.js'
import { placeOf, threadOf, withEvent, asked } from '../page/happened/answer.js'
import { kindWords, summaryOf } from '../../../kernel/cli/event-words.js'
import { hasText, levelOf, olderFrom, withEvents, type ControlEvent } from '../page/happened/events.js'
import {
  charts, parseMetrics, pointsOf, quantileOf, rateOf, totalOf, type Reading
} from '../page/happened/metrics.js'
import { momentOf, pastState, type PastAnswer } from '../page/happened/moment.js'
import { ticksOf, waterfallOf, type Span } from '../page/happened/waterfall.js'
import { instancesOf, nodesOf } from '../page/state.js'

const event = (idx: number, kind: string, fields: Record<string, unknown> = {}): ControlEvent => ({
  idx, at: `2026-01-01T00:00:${String(idx).padStart(2, '0')}.000Z`, origin: 'n1', id: `id${idx}`,
  event: { [kind]: fields }
})
const nameOf = (id: string): string => ({ n1: 'attic', n2: 'cellar' })[id] ?? id

t.test('an event is told in one line, with the names of nodes', (t) => {
  const created = event(1, 'InstanceCreated', {
    instanceId: 'f734f934-166b-4f12-bb36-bc75aeaec43d', modelId: 'acme/chat', nodeIds: ['n2', 'n1']
  })
  t.equal(summaryOf(created, nameOf), 'acme/chat · cellar, attic · instance f734f934')
  const loading = event(2, 'RunnerStatusUpdated', { status: { RunnerLoading: { layersLoaded: 1 } } })
  t.equal(summaryOf(loading, nameOf), 'RunnerLoading')
  const off = event(3, 'PluginStopped', { plugin: 'a-plugin-with-a-long-name', by: null })
  t.equal(summaryOf(off, nameOf), 'plugin a-plugin-with-a-long-name', 'a name is no id')
  t.equal(kindWords('NodeTimedOut'), 'Node timed out')
  const levels = [
    ['TaskFailed', 'error'], ['NodeTimedOut', 'warn'], ['NodeJoined', 'ok'], ['Own', 'plain']
  ] as const
  for (const [kind, level] of levels) t.equal(levelOf(kind), level, kind)
  for (const [text, found] of [['CELLAR', true], ['acme', true], [' ', true], ['attica', false]] as const) {
    t.equal(hasText(created, text, nameOf), found, text)
  }
  t.end()
})

t.test('events are shown once and in order, and older ones are asked for in windows', (t) => {
  const [a, b, c] = [event(1, 'A'), event(2, 'B'), event(3, 'C')]
  t.same(withEvents([b], [a, c, b]), [a, b, c])
  t.same(withEvents([a, b], [c], 2), [b, c])
  const moved = { ...b, idx: 9 }
  t.same(withEvents([a, b, c], [moved]), [a, c, moved], 'the later index counts')
  t.equal(olderFrom(5000, 1), 3999)
  t.equal(olderFrom(500, 1), 0)
  t.equal(olderFrom(500, 400), 399)
  t.equal(olderFrom(400, 400), null)
  t.end()
})

const span = (name: string, startUs: number, durationUs: number, nodeId = 'n1'): Span =>
  ({ name, startUs, durationUs, nodeId, rank: 0, category: 'engine', attrs: {} })

t.test('a waterfall has a lane for each kind of span at each node', (t) => {
  const { startUs, durationUs, lanes } = waterfallOf([
    span('chunk', 600, 100), span('request', 100, 1000), span('chunk', 200, 300),
    span('chunk', 300, 100, 'n2')
  ])
  t.same([startUs, durationUs], [100, 1000])
  t.same(lanes.map(({ name, nodeId, count, totalUs }) => [name, nodeId, count, totalUs]),
    [['request', 'n1', 1, 1000], ['chunk', 'n1', 2, 400], ['chunk', 'n2', 1, 100]])
  t.same(lanes[1]!.bars.map(({ left, width }) => [left, width]), [[0.1, 0.3], [0.5, 0.1]])
  t.same(waterfallOf([]).lanes, [])
  t.equal(waterfallOf([span('x', 5, 0)]).durationUs, 1, 'nothing is divided by zero')
  const many = Array.from({ length: 5000 }, (_, i) => span('token', i * 10, 9))
  const [lane] = waterfallOf(many).lanes
  t.ok(lane!.bars.length < 1100, `${lane!.bars.length} bars`)
  t.equal(lane!.bars.reduce((sum, { spans }) => sum + spans, 0), 5000)
  t.end()
})

t.test('the axis has round times', (t) => {
  t.same(ticksOf(1000), [0, 200, 400, 600, 800, 1000])
  t.same(ticksOf(465_471), [0, 100_000, 200_000, 300_000, 400_000])
  t.same(ticksOf(3), [0, 1, 2, 3])
  t.same(ticksOf(0), [0])
  t.end()
})

t.test('the text format of Prometheus is read', (t) => {
  const cases: [string, object[]][] = [
    ['# HELP a b\n# TYPE a gauge\na 1\n\n', [{ name: 'a', labels: {}, value: 1 }]],
    ['a{b="c",d="e"} 2.5e3 1700000000', [{ name: 'a', labels: { b: 'c', d: 'e' }, value: 2500 }]],
    ['a{b="say \\"x\\\\y\\" }\\n",} 1', [{ name: 'a', labels: { b: 'say "x\\y" }\n' }, value: 1 }]],
    ['a{le="+Inf"} +Inf', [{ name: 'a', labels: { le: '+Inf' }, value: Infinity }]],
    ['a -Inf', [{ name: 'a', labels: {}, value: -Infinity }]],
    ['nonsense\na{ 1\nb x', []]
  ]
  for (const [text, samples] of cases) t.same(parseMetrics(text), samples, text)
  t.end()
})

const reading = (atMs: number, text: string): Reading => ({ atMs, samples: parseMetrics(text) })
const buckets = (...counts: number[]): string =>
  ['1', '2', '+Inf'].map((le, i) => `h_bucket{le="${le}"} ${counts[i]! + 7}`).join('\n')

t.test('rates and quantiles are those of the time between two readings', (t) => {
  const [before, now] = [reading(0, 'c{x="1"} 5\nc{x="2"} 1'), reading(5000, 'c{x="1"} 10\nc{x="2"} 6')]
  t.equal(totalOf(now, 'c'), 16)
  t.equal(totalOf(now, 'd'), null)
  t.equal(rateOf(before, now, 'c'), 2)
  t.equal(rateOf(before, now, 'c', ({ x }) => x === '1'), 1)
  t.equal(rateOf(now, { ...before, atMs: 9000 }, 'c'), null, 'the node was restarted')
  t.equal(rateOf(reading(0, ''), now, 'c'), 3.2, 'a counter that is new')
  const cases: [[number, number, number], number, number | null][] = [
    [[10, 10, 10], 0.5, 0.5], [[0, 10, 10], 0.5, 1.5], [[5, 10, 10], 0.95, 1.9], [[0, 0, 10], 0.5, 2],
    [[0, 0, 0], 0.5, null]
  ]
  for (const [counts, part, value] of cases) {
    const [first, last] = [reading(0, buckets(0, 0, 0)), reading(1, buckets(...counts))]
    t.equal(quantileOf(first, last, 'h', part), value, `${counts} ${part}`)
  }
  t.end()
})

t.test('each chart has a point for each reading but the first', (t) => {
  const text = 'svc_tasks_total{status="Complete"} 4\nsvc_tasks_total{status="Failed"} 1'
  const readings = [reading(0, ''), reading(2000, text), reading(4000, text)]
  const tasks = charts.find(({ title }) => title === 'Tasks')!
  t.same(pointsOf(readings, tasks), [[2, 4], [2, 0], [0.5, 0]])
  t.same(pointsOf([], tasks), [[], [], []])
  t.end()
})

const answer = (more: Partial<PastAnswer> = {}): PastAnswer => ({
  at: 20, snapshot: { idx: 15, at: '2026-01-01T00:00:00.000Z', stale: false, omitted: [] },
  state: {
    sessionId: 's1', masterNodeId: 'n1', instances: {}, runners: {},
    topology: { nodes: ['n1', 'n2'], connections: {} }, tracingEnabled: false
  },
  derived: {
    idx: 20, session: { sessionId: 's2', masterNodeId: 'n3' }, members: ['n1', 'n3'], instances: {}
  },
  events: [], more: false, ...more
})

t.test('a past state is the snapshot with what events say since', (t) => {
  const state = pastState(answer({
    derived: { ...answer().derived, instances: { i1: { modelId: 'acme/chat', nodeIds: ['n3'] } } },
    events: [
      event(17, 'TracingStateChanged', { enabled: true }),
      event(18, 'RunnerStatusUpdated', { instanceId: 'i1', runnerId: 'r1', status: { RunnerReady: {} } })
    ]
  }))
  t.match(state, { sessionId: 's2', masterNodeId: 'n3', tracingEnabled: true, lastEventAppliedIdx: 20 })
  t.match(instancesOf(state), [{ instanceId: 'i1', modelId: 'acme/chat', ready: true, card: null }])
  t.same(nodesOf(state).filter(({ live }) => live).map(({ id }) => id), ['n3', 'n1'])
  t.same(pastState(answer({ state: {} })).tasks, {}, 'what was too large to be recorded is empty')
  t.same(momentOf(answer()), { idx: 20, at: '2026-01-01T00:00:00.000Z' })
  t.equal(momentOf(answer({ events: [event(20, 'X')] })).at, '2026-01-01T00:00:20.000Z')
  t.end()
})

t.test('an answer comes piece by piece, and its evidence has a place', (t) => {
  let turn = asked('why?')
  for (const one of [
    { type: 'call', tool: 'cluster_now', args: {} }, { type: 'text', text: 'Be' },
    { type: 'text', text: 'cause.' }
  ]) turn = withEvent(turn, JSON.stringify(one))
  t.match(turn, { tools: ['cluster now'], text: 'Because.', answer: null, error: null })
  t.equal(withEvent(turn, '{"error":{"message":"It broke."}}').error, 'It broke.')
  t.same(threadOf([turn, asked('and?')]),
    [{ role: 'user', text: 'why?' }, { role: 'assistant', text: 'Because.' }])
  const places: [Parameters<typeof placeOf>[0], string[] | null][] = [
    [{ kind: 'event', idx: 4, at: '', name: 'X' }, ['happened', 'events', '4']],
    [{ kind: 'trace', taskId: 'abc' }, ['happened', 'traces', 'abc']],
    [{ kind: 'node', nodeId: 'n1', name: 'attic' }, ['cluster', 'n1']],
    [{ kind: 'path', path: '/v1/traces/ab-c' }, ['happened', 'traces', 'ab-c']],
    [{ kind: 'path', path: '/v1/traces/cluster' }, ['happened', 'traces']],
    [{ kind: 'path', path: '/models/acme/chat/availability' }, ['models', 'acme/chat']],
    [{ kind: 'path', path: '/events?kinds=TaskFailed' }, ['happened', 'events']],
    [{ kind: 'path', path: '/unknown' }, null], [{ kind: 'error', reason: 'x' }, null]
  ]
  for (const [one, parts] of places) t.same(placeOf(one).parts, parts, JSON.stringify(one))
  t.same(commandsIn('Run `svc up` now.'),
    [{ text: 'Run ', command: false }, { text: 'svc up', command: true }, { text: ' now.', command: false }])
  t.end()
})
