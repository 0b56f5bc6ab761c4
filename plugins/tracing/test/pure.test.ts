import t from 'tap'
import { schemaChecker } from '../../../kernel/api/validate.js'
import fc from 'fast-check'
import { chromeText, lanes, readHead, readSpans } from '../trace-file.js'
import { genAiAttributes } from '../otlp.js'
import { mergeLists, mergeSpans, peerReaders } from '../peers.js'
import { statsOf } from '../stats.js'
import { readTraceparent, writeTraceparent } from '../traceparent.js'
import { showMicros, stepRows } from '../cli/traces.js'
import { record, shown, traceSpan } from './samples.js'
import type { TraceEntry } from '../store.js'

const { readList, readTrace } = peerReaders({ checker: schemaChecker })

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'

t.test('traceparent', (t) => {
  const rows: [string, string | undefined, boolean][] = [
    ['as the recommendation writes it', `00-${TRACE}-${SPAN}-01`, true],
    ['not sampled', `00-${TRACE}-${SPAN}-00`, true],
    ['a later version with more', `01-${TRACE}-${SPAN}-01-what-comes`, true],
    ['nothing', undefined, false],
    ['version 00 with more', `00-${TRACE}-${SPAN}-01-more`, false],
    ['the forbidden version', `ff-${TRACE}-${SPAN}-01`, false],
    ['no trace id', `00-${'0'.repeat(32)}-${SPAN}-01`, false],
    ['no parent id', `00-${TRACE}-${'0'.repeat(16)}-01`, false],
    ['capitals', `00-${TRACE.toUpperCase()}-${SPAN}-01`, false],
    ['too short', `00-${TRACE.slice(1)}-${SPAN}-01`, false],
    ['an attack', '../../etc/passwd', false]
  ]
  for (const [title, header, fine] of rows) {
    t.same(readTraceparent(header), fine ? { traceId: TRACE, parentSpanId: SPAN } : null, title)
  }
  t.same(readTraceparent(writeTraceparent(TRACE, SPAN)), { traceId: TRACE, parentSpanId: SPAN })
  t.end()
})

t.test('spans in one lane never overlap', (t) => {
  const spans = fc.array(fc.record({
    startUs: fc.integer({ min: 0, max: 100 }), durationUs: fc.integer({ min: 0, max: 50 }),
    category: fc.constantFrom('a', 'b'), place: fc.constantFrom(0, 1)
  }), { maxLength: 40 })
  t.doesNotThrow(() => {
    fc.assert(fc.property(spans, (made) => {
      const all = made.map((span) => traceSpan(span)).sort((a, b) => a.startUs - b.startUs)
      const found = lanes(all)
      return all.every((a, i) => all.every((b, j) => i >= j || found[i] !== found[j] ||
        (a.startUs + a.durationUs <= b.startUs && a.category === b.category && a.place === b.place)))
    }))
  })
  t.end()
})

t.test('a trace in Chrome\'s form is read again', (t) => {
  const text = chromeText(record())
  const parsed = JSON.parse(text) as { displayTimeUnit: string, traceEvents: Record<string, unknown>[] }
  t.equal(parsed.displayTimeUnit, 'ms')
  t.match(parsed.traceEvents.filter(({ ph }) => ph === 'M'), [
    { name: 'process_name', pid: 1, args: { name: 'node alpha (node-a)' } },
    { name: 'process_name', pid: 2, args: { name: 'runner on beta' } },
    { name: 'thread_name', pid: 1, args: { name: 'request' } },
    { name: 'thread_name', pid: 2, args: { name: 'decode' } }
  ])
  t.match(parsed.traceEvents.filter(({ ph }) => ph === 'X'), [
    { name: 'request', cat: 'request', pid: 1, ts: 1000, dur: 9000 },
    { name: 'decode', cat: 'decode', pid: 2, ts: 2000, dur: 4000, args: { steps: 4 } }
  ])
  const { spans: _, ...head } = record()
  t.same(readHead(text), head)
  t.same(readHead(text.slice(0, text.indexOf('\n') + 1)), head, 'the first line is enough')
  t.same(readSpans(text), [
    shown({ name: 'request', category: 'request', startUs: 1000, durationUs: 9000 }),
    { name: 'decode', category: 'decode', startUs: 2000, durationUs: 4000, rank: 2, nodeId: 'node-b',
      attrs: { steps: 4 } }
  ])
  for (const other of ['', '{}', '{"otherData":{},\n', '{"otherData":x,\n', 'not json', '[1,\n']) {
    t.equal(readHead(other), null, JSON.stringify(other))
  }
  t.end()
})

t.test('stats', (t) => {
  t.same(statsOf('t', []), { taskId: 't', totalWallTimeUs: 0, byCategory: {}, byRank: {} })
  const spans = [
    shown({ startUs: 100, durationUs: 10 }), shown({ startUs: 200, durationUs: 30 }),
    shown({ startUs: 50, durationUs: 400, category: 'decode', rank: 1, attrs: { steps: 4 } })
  ]
  t.same(statsOf('t', spans), {
    taskId: 't',
    totalWallTimeUs: 400,
    byCategory: {
      api: { totalUs: 40, count: 2, minUs: 10, maxUs: 30, avgUs: 20 },
      decode: { totalUs: 400, count: 4, minUs: 100, maxUs: 100, avgUs: 100 }
    },
    byRank: {
      0: { byCategory: { api: { totalUs: 40, count: 2, minUs: 10, maxUs: 30, avgUs: 20 } } },
      1: { byCategory: { decode: { totalUs: 400, count: 4, minUs: 100, maxUs: 100, avgUs: 100 } } }
    }
  })
  t.end()
})

const entry = (taskId: string, createdAt: string): TraceEntry => ({
  taskId, createdAt, modelId: 'm', commandId: `c-${taskId}`, taskKind: 'tts', outcome: 'completed',
  durationUs: 1, fileSize: 2
})

t.test('lists of several nodes become one', (t) => {
  const merged = mergeLists([
    { nodeId: 'a', value: [entry('1', '2026-01-01'), entry('2', '2026-01-02')] },
    { nodeId: 'b', value: [entry('2', '2026-01-02'), entry('3', '2026-01-03')] },
    { nodeId: 'b', value: [entry('3', '2026-01-03')] }
  ])
  t.same(merged.map(({ taskId, sourceNodes }) => [taskId, sourceNodes]),
    [['3', ['b']], ['2', ['a', 'b']], ['1', ['a']]])
  const one = shown({ startUs: 5 })
  t.same(mergeSpans([
    { nodeId: 'a', value: [one, shown({ startUs: 9 })] }, { nodeId: 'b', value: [one, shown({ startUs: 1 })] }
  ]).map(({ startUs }) => startUs), [1, 5, 9])
  t.end()
})

t.test('nonsense of other nodes is told from traces', (t) => {
  const fine = entry('1', '2026-01-01')
  t.same(readList({ traces: [{ ...fine, sourceNodes: ['x'], more: 1 }] }), [fine])
  t.same(readTrace({ taskId: '1', traces: [shown({})] }), { taskId: '1', spans: [shown({})] })
  for (const bad of [null, 1, [], {}, { traces: 1 }, { traces: [1] }, { traces: [{ ...fine, taskId: 1 }] },
    { traces: [{ ...fine, fileSize: -1 }] }, { traces: [{ ...fine, modelId: 'x'.repeat(600) }] }]) {
    t.equal(readList(bad), null, JSON.stringify(bad)?.slice(0, 60))
  }
  for (const bad of [null, {}, { traces: [] }, { taskId: 1, traces: [] }, { taskId: '1', traces: [{}] },
    { taskId: '1', traces: [{ ...shown({}), startUs: 'x' }] },
    { taskId: '1', traces: [{ ...shown({}), attrs: null }] }]) {
    t.equal(readTrace(bad), null, JSON.stringify(bad))
  }
  t.end()
})

t.test('the words of OpenTelemetry', (t) => {
  const spans = [traceSpan({ attrs: { input_tokens: 7, output_tokens: 3 } }),
    traceSpan({ attrs: { output_tokens: 2 } })]
  t.same(genAiAttributes(record({ taskKind: 'completion', spans, reason: 'timeout', outcome: 'failed' })), {
    'gen_ai.operation.name': 'text_completion', 'gen_ai.provider.name': 'svc',
    'gen_ai.request.model': 'acme/lm', 'gen_ai.response.model': 'acme/lm', 'gen_ai.response.id': 'command-1',
    'gen_ai.usage.input_tokens': 7, 'gen_ai.usage.output_tokens': 5, 'error.type': 'timeout',
    'svc.task.id': 'task-1', 'svc.command.id': 'command-1'
  })
  t.match(genAiAttributes(record({ taskKind: 'tts' })), { 'gen_ai.operation.name': 'text_to_speech' })
  t.end()
})

t.test('the steps of a trace', (t) => {
  const decode = { name: 'decode', category: 'decode', nodeId: 'b' }
  const rows = stepRows([
    shown({ name: 'request', category: 'request', startUs: 0, durationUs: 100_000 }),
    shown({ name: 'route', category: 'route', startUs: 1000, durationUs: 500 }),
    shown({ name: 'runner', category: 'runner', startUs: 10_000, durationUs: 80_000 }),
    shown({ ...decode, startUs: 20_000, durationUs: 30_000, attrs: { steps: 3 } }),
    shown({ ...decode, startUs: 50_000, durationUs: 20_000, attrs: { steps: 2 } })
  ], (nodeId) => nodeId === 'b' ? 'beta' : 'alpha')
  t.same(rows, [
    ['alpha', 'request', '+0 us', '100 ms'], ['alpha', 'route', '+1.0 ms', '500 us'],
    ['alpha', 'runner', '+10 ms', '80 ms'], ['beta', 'decode x5', '+20 ms', '50 ms (10 ms each)']
  ])
  t.same(stepRows([], String), [])
  t.same([1, 999, 1500, 250_000, 1_500_000, 90_000_000].map(showMicros),
    ['1 us', '999 us', '1.5 ms', '250 ms', '1.50 s', '1m30s'])
  t.end()
})
