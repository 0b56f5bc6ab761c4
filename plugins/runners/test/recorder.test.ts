import t from 'tap'
import { schemaChecker } from '../../../kernel/api/validate.js'
import { partReader, type SpanPart } from '../../tracing/recording.js'
import { partOf, SpanRecorder, SPANS_MAX } from '../process/span-recorder.js'

const readPart = partReader({ checker: schemaChecker })

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

t.test('a part that is open holds what is recorded in it', (t) => {
  let now = 5
  const recorder = new SpanRecorder(() => now)
  const generate = recorder.open('generate', 'generate')
  generate.span('prefill', 'prefill', 5, 6)
  generate.series('decode', 'decode').add(6, 7)
  const inner = generate.open('check', 'generate', 6.5)
  inner.span('deep', 'generate', 6.6, 6.7)
  recorder.series('decode', 'decode').add(1, 2)
  now = 8
  generate.end({ tokens: 1 })
  now = 9
  const spans = recorder.spans()
  const nameOf = (id: number | null): string | undefined => spans.find((span) => span.id === id)?.name
  t.same(spans.map(({ name, parent, startMs, endMs }) => [name, nameOf(parent), startMs, endMs]), [
    ['generate', undefined, 5, 8], ['prefill', 'generate', 5, 6], ['check', 'generate', 6.5, 9],
    ['deep', 'check', 6.6, 6.7], ['decode', 'generate', 6, 7], ['decode', undefined, 1, 2]
  ], 'what nobody ended goes on')
  t.end()
})

t.test('a part comes out of JSON as it went in', (t) => {
  const recorder = new SpanRecorder(() => 50)
  recorder.span('prefill', 'prefill', 10, 12.5, { tokens: 3 })
  recorder.series('decode', 'decode').add(12.5, 13)
  const part = readPart(JSON.parse(JSON.stringify(partOf(recorder, 'runner', 9))))
  t.same(part?.places, [{ nodeId: null, process: 'runner', rank: 0 }])
  const rest = { parent: 0, place: 0 }
  t.same(part?.spans, [
    { ...rest, id: 1, name: 'prefill', category: 'prefill', startUs: 1000, durationUs: 2500, steps: 0,
      attrs: { tokens: 3 } },
    { ...rest, id: 2, name: 'decode', category: 'decode', startUs: 3500, durationUs: 500, steps: 1 }
  ])
  t.end()
})

const span = {
  id: 1, parent: 0, place: 0, name: 'a', category: 'b', startUs: 0, durationUs: 5, steps: 0, attrs: { n: 1 }
}
const good: SpanPart = {
  receivedMs: 1, sentMs: 2, places: [{ nodeId: null, process: 'node', rank: 0 }],
  spans: [span], clocks: [], about: null, dropped: 0
}

t.test('what is no part is refused', (t) => {
  t.ok(readPart(good))
  t.ok(readPart({ ...good, about: { taskId: 't', modelId: 'm', capability: 'c' } }))
  t.ok(readPart({ ...good, clocks: [{ nodeId: null, process: 'runner', offsetMs: 0, uncertaintyMs: 1 }] }))
  const bad: [string, unknown][] = [
    ['nothing', undefined], ['a text', 'x'], ['a list', []],
    ['no time', { ...good, receivedMs: null }],
    ['it was sent before it came in', { ...good, sentMs: 0 }],
    ['a place that is none', { ...good, spans: [{ ...span, place: 1 }] }],
    ['no name', { ...good, spans: [{ ...span, name: undefined }] }],
    ['a long name', { ...good, spans: [{ ...span, name: 'x'.repeat(200) }] }],
    ['a negative length', { ...good, spans: [{ ...span, durationUs: -5 }] }],
    ['a span of years', { ...good, spans: [{ ...span, durationUs: 1e15 }] }],
    ['no numbers', { ...good, spans: [{ ...span, startUs: '5' }] }],
    ['a parent that is none', { ...good, spans: [{ ...span, parent: 'x' }] }],
    ['too many spans', { ...good, spans: Array.from({ length: SPANS_MAX + 1 }, () => span) }],
    ['facts that are none', { ...good, spans: [{ ...span, attrs: { deep: {} } }] }],
    ['a long fact', { ...good, spans: [{ ...span, attrs: { text: 'x'.repeat(200) } }] }],
    ['an unknown process', { ...good, places: [{ nodeId: null, process: 'gpu', rank: 0 }] }],
    ['a task without a name', { ...good, about: { taskId: 1 } }],
    ['a clock that is none', { ...good, clocks: [{ nodeId: null }] }],
    ['a negative count', { ...good, dropped: -1 }]
  ]
  for (const [title, value] of bad) t.equal(readPart(value), null, title)
  t.end()
})
