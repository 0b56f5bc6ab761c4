import t from 'tap'
import { requestIdIn } from '../tools/why-request.js'
import { partWords, eventText } from '../tools/request-words.js'
import { summarizeRequest, type RequestFacts, type SeenEvent } from '../tools/request-facts.js'
import { storyOf } from '../tools/request-history.js'
import type { ShownSpan, TraceHead } from '../../tracing/service.js'
import type { SeenTask } from '../cli/state.js'
import { instanceOn, nodeOf, seenState, sendError, sendJson } from './verb-kit.js'

const TASK = '11111111-2222-5333-8444-555555555555'
const COMMAND = 'aaaaaaaa-2222-4333-8444-555555555555'
const START = Date.parse('2026-01-31T08:00:00.000Z')
const at = (ms: number): string => new Date(START + ms).toISOString()

const task = (status: string): SeenTask => ({
  taskId: TASK, commandId: COMMAND, instanceId: 'i1', modelId: 'acme/chat', capability: 'chat@1.0.0', status,
  createdAt: at(0)
})
const event = (ms: number, kind: string, payload: Record<string, unknown>, origin = 'id-n1'): SeenEvent =>
  ({ idx: ms, at: at(ms), origin, event: { [kind]: payload } })
const failure = event(3000, 'TaskFailed', {
  taskId: TASK, commandId: COMMAND, errorType: 'instance_lost', errorMessage: 'The task of acme/chat failed.'
})
const span = (
  name: string, category: string, startMs: number, ms: number, nodeId = 'id-n1', attrs: object = {}
): ShownSpan => ({
  name, category, nodeId, rank: 0, startUs: (START + startMs) * 1000, durationUs: ms * 1000,
  attrs: { ...attrs }
})
const spans = [
  span('request', 'request', 0, 2000, 'id-n1', { call: 'POST /v1/chat/completions', outcome: 'completed' }),
  span('parse', 'api', 0, 1), span('runner queue', 'queue', 2, 98, 'id-n2'),
  span('runner', 'runner', 100, 1900, 'id-n2'),
  span('prefill', 'prefill', 100, 400, 'id-n2'), span('generate', 'generate', 500, 700, 'id-n2'),
  span('generate', 'generate', 1200, 800, 'id-n2'), span('odd\u001b', 'else', 1990, 1, 'id-n2')
]
const head: TraceHead = {
  taskId: TASK, commandId: COMMAND, createdAt: at(0), modelId: 'acme/chat', taskKind: 'chat@1.0.0',
  durationUs: 2e6, outcome: 'completed', reason: null,
  places: [
    { nodeId: 'id-n1', name: 'n1', process: 'node', rank: 0 },
    { nodeId: 'id-n2', name: 'n2', process: 'runner', rank: 0 }
  ],
  traceId: '', spanId: '', parentSpanId: null, clocks: [], droppedSpans: 0
}

const facts = (more: Partial<RequestFacts> = {}): RequestFacts => ({
  id: TASK, nowMs: START + 60_000, state: seenState(), tracing: false, trace: null, failed: null, events: [],
  then: null, lines: [], losses: [], unseen: [], ...more
})
const remedy = (reason: string): string | null => reason === 'instance_lost' ? 'Send it again.' : null

t.test('which words are ids of requests', (t) => {
  const rows: [string, string | null][] = [
    [TASK, TASK], [TASK.toUpperCase(), TASK], [`msg_${COMMAND}`, COMMAND], [`x-${COMMAND}`, COMMAND],
    ['acme/chat', null], [`acme/${TASK}`, null], [TASK.slice(1), null], [`x${TASK}`, null],
    [`${TASK}0`, null], ['', null]
  ]
  for (const [word, id] of rows) t.equal(requestIdIn(word), id, word)
  t.end()
})

t.test('a traced request: where it went and what took how long', (t) => {
  const traced = { ...facts({ trace: { head, spans } }) }
  const story = storyOf(traced, remedy)
  t.match(story, {
    asked: { taskId: TASK, commandId: COMMAND, kind: 'chat@1.0.0', modelId: 'acme/chat', at: at(0) },
    entered: 'n1', ran: ['n2'], tookMs: 2000, ended: { how: 'completed', reason: null }, open: false
  })
  t.same(story.parts.map(({ words, node, startMs, tookMs }) => [words, node, startMs, tookMs]), [
    ['read the request', 'n1', 0, 1], ['waited for a slot at the runner', 'n2', 2, 98],
    ['read the prompt', 'n2', 100, 400], ['wrote the answer', 'n2', 500, 1500], ['odd ', 'n2', 1990, 1]
  ])
  t.match(story.next, [/acme\/chat does not answer now: svc why acme\/chat/, /svc traces 1111/])
  const bare = storyOf(facts({ trace: { head: null, spans } }), remedy)
  t.match(bare,
    { asked: { taskId: null, kind: 'POST /v1/chat/completions' }, ran: [], ended: { how: 'completed' } })
  t.end()
})

t.test('how it ended, from whatever is known', (t) => {
  const state = (status: string): RequestFacts['state'] =>
    ({ ...seenState(), tasks: { [TASK]: { Inference: task(status) } } })
  const rows: [string, Partial<RequestFacts>, object][] = [
    ['waits', { state: state('Pending') }, { how: 'open', message: 'it waits in the queue' }],
    ['runs', { state: state('Running') }, { how: 'open', message: 'it is running' }],
    ['by its command', { id: COMMAND, state: state('Running') }, { how: 'open' }],
    ['done', { state: state('Complete') }, { how: 'completed' }],
    ['late', { state: state('TimedOut') }, { how: 'failed', reason: null }],
    ['given up', { state: state('Cancelled') }, { how: 'cancelled' }],
    ['an event', { failed: failure },
      { how: 'failed', reason: 'instance_lost', message: /acme.chat failed/ }],
    ['the trace', { trace: { head: { ...head, outcome: 'failed', reason: 'timeout' }, spans } },
      { how: 'failed', reason: 'timeout' }],
    ['nobody knows', {}, { how: 'unknown', message: 'its outcome was not recorded' }]
  ]
  for (const [title, more, expect] of rows) t.match(storyOf(facts(more), remedy).ended, expect, title)
  const open = storyOf(facts({ state: state('Running') }), remedy)
  t.match(open, { open: true, tookMs: 60_000, next: [/svc logs -f --model acme\/chat/, /svc traces on/] })
  t.match(summarizeRequest(facts({ failed: failure })),
    { commandId: COMMAND, startMs: START + 3000, endMs: START + 3000 })
  t.end()
})

t.test('why it failed: what happened around it, as far as it has to do with it', (t) => {
  const state = { ...seenState(), instances: { i1: instanceOn('i1', 'acme/chat', ['id-n2']) } }
  const ours = { instanceId: 'i1', modelId: 'acme/chat' }
  const other = { instanceId: 'i2', modelId: 'acme/other' }
  const events = [
    event(-60_000, 'NodeTimedOut', { nodeId: 'id-n2', evidence: 'long ago' }),
    event(1000, 'NodeTimedOut', { nodeId: 'id-n1', evidence: 'another node' }),
    event(2000, 'NodeTimedOut', { nodeId: 'id-n2', evidence: 'no sign of life for 5 s' }),
    event(2100, 'RunnerFailed', { ...ours, attempts: 3, errorMessage: 'it \u001b fell' }),
    event(2200, 'RunnerFailed', { ...other, attempts: 3, errorMessage: 'not ours' }),
    event(2300, 'RunnerStatusUpdated', { ...ours, status: { RunnerLoading: {} } }),
    event(2400, 'SessionChanged', { sessionId: 's', term: 4, masterNodeId: 'id-n1' }), failure,
    event(3100, 'InstanceDeleted', { instanceId: 'i1', modelId: 'acme/chat' })
  ]
  const then = {
    at: at(3000), snapshot: { at: at(2900) },
    state: {
      ...state, masterNodeId: 'id-n1', cluster: { knownNodes: 3, liveNodes: 2, quorum: 'ok' },
      nodeHealth: { 'id-n2': { level: 'warn', reasons: [{ code: 'disk_low', message: '' }] } },
      tasks: { [TASK]: { Inference: task('Running') } }
    }
  }
  const story = storyOf(facts({ state, failed: failure, events, then }), remedy)
  t.same(story.around.map(({ text }) => text), [
    'n2 was lost: no sign of life for 5 s', 'its runner was given up after 3 attempts: it   fell',
    'the cluster began a new session (term 4, master n1); open requests ended',
    'it failed with instance_lost: The task of acme/chat failed.', 'its instance was removed'
  ])
  t.match(story, { entered: 'n1', ran: ['n2'], asked: { instanceId: 'i1', kind: 'chat@1.0.0' } })
  t.same(story.then, [
    `master n1, 2 of 3 nodes live, acme/chat was placed (no runner) (recorded ${at(2900)})`,
    'n2 reported disk_low'
  ])
  t.match(story.next, ['Send it again.', /svc why acme\/chat/, /svc logs --since 2026.* --model acme\/chat/])
  t.end()
})

t.test('events and steps in words', (t) => {
  const concern = {
    taskId: TASK, commandId: null, modelId: 'a/b', instanceId: null, nodes: new Set<string>(),
    name: (id: string) => id.toUpperCase()
  }
  const rows: [string, Record<string, unknown>, RegExp | null][] = [
    ['NodeRestarted', { nodeId: 'x' }, /^X was requested to restart/],
    ['NodeRemoved', { nodeId: 'x', name: 'attic' }, /^attic was removed/],
    ['InstanceCreated', { modelId: 'a/b', nodeIds: ['x', 'y'] }, /placed on X, Y/],
    ['InstanceUnloaded', { modelId: 'a/b', idleSeconds: 9 }, /unused for 9 s/],
    ['InstanceFailureRecorded', { modelId: 'a/b', errorCode: 'c', errorMessage: 'm' }, /\(c\): m/],
    ['DownloadFailed', { modelId: 'a/b', errorMessage: 'm' }, /could not be downloaded: m/],
    ['RunnerStatusUpdated', { modelId: 'a/b', status: { RunnerIdle: {} } }, /is restarting/],
    ['RunnerStatusUpdated', { modelId: 'a/b', status: {} }, null],
    ['TaskFailed', { taskId: 'other', commandId: 'other' }, null],
    ['DownloadFailed', { modelId: 'c/d' }, null],
    ['NodeJoined', { nodeId: 'x' }, null]
  ]
  for (const [kind, payload, expect] of rows) {
    const text = eventText(event(0, kind, payload), concern)
    if (expect === null) t.equal(text, null, kind)
    else t.match(text, expect, kind)
  }
  t.equal(partWords({ name: 'prefill (draft)' }), 'read the prompt')
  t.equal(partWords({ name: 'something' }), 'something')
  t.end()
})

const trace = `GET /v1/traces/cluster/${TASK}`
type Response = Parameters<typeof sendJson>[0]
const tasks = { [TASK]: { Inference: task('Failed') } }

t.test('svc why ID: one page', async (t) => {
  const since = '2026-01-31T07'
  const line = {
    nodeId: 'id-n2', node: 'n2', at: at(10), level: 'warn', message: 'gave up', fields: { taskId: TASK }
  }
  const node = await nodeOf(t, {
    'GET /state': (response: Response, { url }) => {
      if (url.includes('at=')) sendError(response, 404, 'not_recorded')
      else sendJson(response, { ...seenState(), tasks })
    },
    'GET /v1/tracing': (response: Response) => { sendJson(response, { enabled: true }) },
    [trace]: (response: Response) => { sendJson(response, { taskId: TASK, traces: spans }) },
    [`${trace}/raw`]: (response: Response) => { sendJson(response, { otherData: head }) },
    'GET /events': (response: Response, { url }) => {
      const fits = url.includes(`since=${since}`) || url.includes('kinds=')
      sendJson(response, { events: fits ? [failure] : [] })
    },
    'GET /v1/logs/cluster': (response: Response) => {
      sendJson(response, { nodes: [], lines: [line, { ...line, fields: { taskId: 'other' } }] })
    }
  })
  const ran = await node.run(['why', TASK])
  t.equal(ran.status, 0)
  t.equal(ran.out, [
    `        task ${TASK}, command ${COMMAND}`,
    `asked   chat@1.0.0 for acme/chat, ${at(0)}`,
    'entered n1',
    'ran     n2, instance i1',
    'took    2.00 s',
    '          +0.0 ms     1.0 ms    0 %  read the request (n1)',
    '          +2.0 ms      98 ms    5 %  waited for a slot at the runner (n2)',
    '          +100 ms     400 ms   20 %  read the prompt (n2)',
    '          +500 ms     1.50 s   75 %  wrote the answer (n2)',
    '          +1.99 s     1.0 ms    0 %  odd  (n2)',
    'ended   failed: instance_lost: The task of acme/chat failed.',
    `around  ${at(3000)}  it failed with instance_lost: The task of acme/chat failed.`,
    `logs    ${at(10)}  n2: gave up`,
    'now     it has ended',
    'next    Retry the request.',
    '        acme/chat does not answer now: svc why acme/chat',
    `        the logs of that time: svc logs --since ${at(0)} --model acme/chat`,
    `        every step with its time: svc traces ${TASK}`, ''
  ].join('\n'))
  t.match(ran.err, /^not checked: the state at that moment: .*\n$/)
  t.match(JSON.parse((await node.run(['why', TASK, '--json'])).out), { id: TASK, ended: { how: 'failed' } })
  t.notOk(node.asked.some(({ method }) => method !== 'GET'), 'nothing is changed')
})

t.test('svc why ID: without tracing, events and history', async (t) => {
  const node = await nodeOf(t, {
    'GET /state': (response: Response, { url }) => {
      if (url.includes('at=')) sendError(response, 404, 'plugin_disabled')
      else sendJson(response, { ...seenState(), tasks })
    },
    'GET /events': (response: Response) => { sendError(response, 403, 'missing_grant') }
  })
  const ran = await node.run(['why', COMMAND])
  t.match(ran, { status: 0, out: /ended {3}failed\n[^]*it has ended/ })
  t.match(ran.err, /not checked: the traces: it is not available on this node/)
  t.match(ran.err, /not checked: the events: it requires the authority "operator"/)
})

t.test('svc why ID: nothing is known of it', async (t) => {
  const node = await nodeOf(t, {
    'GET /state': (response: Response) => {
      const instances = { [COMMAND]: instanceOn(COMMAND, 'acme/chat', ['id-n1']) }
      sendJson(response, { ...seenState(), instances })
    },
    'GET /v1/tracing': (response: Response) => { sendJson(response, { enabled: false }) },
    [trace]: (response: Response) => { sendError(response, 404, 'trace_not_found') },
    'GET /events': (response: Response) => { sendJson(response, { events: [] }) }
  })
  const ran = await node.run(['why', TASK])
  t.equal(ran.status, 3)
  t.match(ran.err, /the command or task 1111\S* is unknown[^]*GET \/events[^]*svc traces on/)
  t.notMatch(ran.err, /not looked at/)
  t.match(await node.run(['why', COMMAND]),
    { status: 3, err: /is an instance of acme\/chat.*svc why acme\/chat/ })
})
