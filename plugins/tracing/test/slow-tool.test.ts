import t from 'tap'
import { lacks, toolContext } from '../../../kernel/testing/index.js'
import { recorded } from '../../../test/recorded.js'
import slow from '../tools/slow.js'

const NOW = '2026-11-23T20:58:00.000Z'
type Any = Record<string, never>

/** The recorded answers without processor loads, because the processors were busy when they were recorded. */
function quiet (): Any {
  const answers = recorded('request-failed') as unknown as Record<string, Any>
  return { ...answers, '/state': { ...answers['/state'], nodeSystem: {} } } as unknown as Any
}

t.test('how long requests took and where their time went', async (t) => {
  const { facts, unknown } = await slow.run(toolContext(quiet(), NOW), { model: 'svc/voice-en' })
  t.same(unknown, [])
  t.match(facts, [
    {
      code: 'durations', about: ['svc/voice-en', String],
      text: /^The newest 2 requests of svc\/voice-en took \d+ ms at/
    },
    { code: 'time_spent', text: /\d+ % encoding the audio, \d+ % synthesising the speech/ }
  ])
  t.notOk(facts.some(({ level }) => level === 'warn' || level === 'fail'))
})

t.test('nothing is traced', async (t) => {
  const none = { traces: [], failed: [] }
  const answers = { ...quiet(), '/v1/tracing': { enabled: false }, '/v1/traces/cluster?': none }
  const { facts } = await slow.run(toolContext(answers, NOW), {})
  t.match(facts, [
    { code: 'not_traced' }, { level: 'info', code: 'tracing_off', remedy: /`svc traces on`/ }
  ])
})

t.test('queues, a late event loop, busy processors and a slow link', async (t) => {
  const answers = quiet() as unknown as Record<string, Any>
  const { nodes: [node] } = answers['/v1/diagnostics/cluster'] as unknown as { nodes: Record<string, Any>[] }
  const { resources, supervisorRunners: [runner] } = node!['diagnostics'] as unknown as
    { resources: Any, supervisorRunners: Any[] }
  const diagnostics = {
    resources: { ...resources, eventLoopDelayMs: { p50: 1, p99: 900 } },
    supervisorRunners: [{ ...runner, waitingTasks: 3 }]
  }
  const state = answers['/state'] as unknown as
    { topology: { connections: Record<string, Record<string, object[]>> }, localNodeId: string }
  const { localNodeId } = state
  const [peer] = Object.keys(state.topology.connections[localNodeId]!)
  const [way] = state.topology.connections[localNodeId]![peer!]!
  const ways = [{ ...way, rttMs: 180, bytesPerSecond: 1024 * 1024 }]
  const { facts } = await slow.run(toolContext({
    ...answers,
    '/v1/diagnostics/cluster': { nodes: [{ ...node, diagnostics }] },
    '/state': {
      ...state, nodeSystem: { [localNodeId]: { pcpuUsage: 0.97 } },
      topology: { connections: { [localNodeId]: { [peer!]: ways } } }
    }
  }, NOW), {})
  t.match(facts.slice(0, 4), [
    {
      level: 'warn', code: 'model_busy',
      text: 'svc/voice-en is busy on node2: its runner serves 8 at once, and 3 more wait.',
      remedy: /`svc place svc\/voice-en --node NODE`/
    },
    {
      level: 'warn', code: 'link_slow',
      text: /^The link from node2 to .* is slow: 180 ms round trip, 1\.0 MiB\/s\.$/
    },
    { level: 'warn', code: 'loop_late', text: /^The event loop of node2 was 900 ms late/ },
    { level: 'warn', code: 'cpu_busy', text: 'The processors of node2 are 97 % busy.' }
  ])
})

t.test('requests that wait most of their time', async (t) => {
  const answers = quiet() as unknown as Record<string, { byCategory: object, totalWallTimeUs: number }>
  for (const [path, stats] of Object.entries(answers).filter(([path]) => path.endsWith('/stats'))) {
    const queue = { totalUs: stats.totalWallTimeUs / 2, count: 1, minUs: 1, maxUs: 1, avgUs: 1 }
    answers[path] = { ...stats, byCategory: { ...stats.byCategory, queue } }
  }
  const { facts } = await slow.run(toolContext(answers, NOW), {})
  t.match(facts[0],
    { level: 'warn', code: 'model_busy', text: /^Requests wait in the queue for 50 % of their time/ })
})

t.test('what it may not see', async (t) => {
  const answers = { ...quiet(), '/v1/diagnostics/cluster': lacks('operator') }
  const { unknown } = await slow.run(toolContext(answers, NOW), {})
  t.same(unknown,
    ['The queues and the event loops of the nodes could not be read: that needs the authority operator.'])
})
