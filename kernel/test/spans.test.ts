import t from 'tap'
import { readPart } from '../observe/span-check.js'
import { packPart, PART_SPANS_MAX, partOf, SpanRecorder, unpackSpans } from '../observe/spans.js'
import { createTracers, timed, traceHeaders } from '../observe/tracer.js'
import type { SpanPart } from '../observe/spans.js'
import type { Trace } from '../observe/tracer.js'

t.test('steps of a series are joined in pairs, and none is lost', (t) => {
  for (const count of [0, 1, 31, 32, 33, 127, 128, 129, 256, 257, 100_000]) {
    const recorder = new SpanRecorder(() => 0)
    const series = recorder.series('decode', 'decode')
    for (let i = 0; i < count; i++) series.add(i, i + 1)
    const spans = recorder.spans()
    t.equal(spans.reduce((sum, { steps }) => sum + steps, 0), count, `${count} steps`)
    t.ok(spans.length <= 128, `${count} steps in ${spans.length} spans`)
    t.ok(spans.every(({ startMs, endMs, steps }) => endMs - startMs === steps), 'each as long as its steps')
    t.equal(spans.at(-1)?.endMs ?? 0, count)
  }
  t.end()
})

t.test('a recorder is bounded, and counts what found no room', (t) => {
  const recorder = new SpanRecorder(() => 0)
  for (let i = 0; i < 3000; i++) recorder.span('x', 'y', i, i + 1)
  for (let kind = 0; kind < 6; kind++) recorder.series(`s${kind}`, 'y').add(0, 1)
  t.equal(recorder.series('s0', 'y'), recorder.series('s0', 'y'))
  t.equal(recorder.dropped, 3000 - 2048 + 2)
  t.equal(recorder.spans().length, 2048 + 4)
  t.end()
})

t.test('a part comes out of JSON as it went in', (t) => {
  const recorder = new SpanRecorder(() => 50)
  recorder.span('prefill', 'prefill', 10, 12.5, { tokens: 3 })
  recorder.series('decode', 'decode').add(12.5, 13)
  const part = readPart(JSON.parse(JSON.stringify(partOf(recorder, 'runner', 9))))
  t.same(part?.places, [{ nodeId: null, process: 'runner', rank: 0 }])
  t.same(unpackSpans(part!), [
    { place: 0, name: 'prefill', category: 'prefill', startMs: 10, endMs: 12.5, steps: 0,
      attrs: { tokens: 3 } },
    { place: 0, name: 'decode', category: 'decode', startMs: 12.5, endMs: 13, steps: 1, attrs: undefined }
  ])
  t.end()
})

const good: SpanPart = {
  receivedMs: 1, sentMs: 2, places: [{ nodeId: null, process: 'node', rank: 0 }], kinds: [['a', 'b']],
  spans: [0, 0, 0, 5, 0], attrs: { 0: { n: 1 } }, clocks: [], about: null, dropped: 0
}

t.test('what is no part is refused', (t) => {
  t.ok(readPart(good))
  t.ok(readPart({ ...good, about: { taskId: 't', modelId: 'm', capability: 'c' } }))
  t.ok(readPart({ ...good, clocks: [{ nodeId: null, process: 'runner', offsetMs: 0, uncertaintyMs: 1 }] }))
  const bad: [string, unknown][] = [
    ['nothing', undefined], ['a text', 'x'], ['a list', []],
    ['no time', { ...good, receivedMs: null }],
    ['it was sent before it came in', { ...good, sentMs: 0 }],
    ['a place that is none', { ...good, spans: [1, 0, 0, 5, 0] }],
    ['a kind that is none', { ...good, spans: [0, 1, 0, 5, 0] }],
    ['a piece of a span', { ...good, spans: [0, 0, 0] }],
    ['a negative length', { ...good, spans: [0, 0, 0, -5, 0] }],
    ['a span of years', { ...good, spans: [0, 0, 0, 1e15, 0] }],
    ['no numbers', { ...good, spans: [0, 0, 0, '5', 0] }],
    ['too many spans', { ...good, spans: Array.from({ length: 5 * PART_SPANS_MAX + 5 }, () => 0) }],
    ['facts that are none', { ...good, attrs: { 0: { deep: {} } } }],
    ['a long fact', { ...good, attrs: { 0: { text: 'x'.repeat(200) } } }],
    ['an unknown process', { ...good, places: [{ nodeId: null, process: 'gpu', rank: 0 }] }],
    ['a task without a name', { ...good, about: { taskId: 1 } }],
    ['a clock that is none', { ...good, clocks: [{ nodeId: null }] }],
    ['a negative count', { ...good, dropped: -1 }]
  ]
  for (const [title, value] of bad) t.equal(readPart(value), null, title)
  t.end()
})

t.test('a part has at most 4,096 spans', (t) => {
  const span = { place: 0, name: 'a', category: 'b', startMs: 1, endMs: 2, steps: 0, attrs: undefined }
  const part = packPart({ ...good, spans: Array.from({ length: 5000 }, () => span) })
  t.equal(part.spans.length, 5 * PART_SPANS_MAX)
  t.equal(part.dropped, 5000 - PART_SPANS_MAX)
  t.end()
})

t.test('without a tracer, and while it is off, nothing begins', async (t) => {
  const tracers = createTracers()
  const start = { commandId: 'c', name: 'tts', arrivedMs: undefined, traceparent: undefined, member: false }
  t.notOk(tracers.on)
  t.equal(tracers.begin({ ...start, member: true }), undefined)
  const trace = { traceparent: 'x', span: () => {}, now: () => 0 } as unknown as Trace
  const tracer = { enabled: false, begin: () => trace }
  const stop = tracers.use(tracer)
  t.equal(tracers.begin(start), undefined)
  t.equal(tracers.begin({ ...start, member: true }), trace, 'another node decides for its requests')
  tracer.enabled = true
  t.ok(tracers.on)
  t.equal(tracers.begin(start), trace)
  stop()
  t.notOk(tracers.on)
  t.same(traceHeaders(undefined), {})
  t.same(traceHeaders(trace), { 'x-svc-trace': '1', traceparent: 'x' })
  t.equal(await timed(undefined, 'a', 'b', async () => 7), 7)
})

t.test('work that fails has its span too', async (t) => {
  const spans: unknown[] = []
  let now = 0
  const trace = {
    now: () => now, span: (...said: unknown[]) => { spans.push(said) }
  } as unknown as Trace
  await t.rejects(timed(trace, 'route', 'route', async () => {
    now = 3
    throw new Error('no')
  }), /no/)
  t.same(spans, [['route', 'route', 0, 3]])
})
