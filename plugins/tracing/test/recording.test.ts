import t from 'tap'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { partOf, SpanRecorder } from '../../runners/process/span-recorder.js'
import { schemaChecker } from '../../../kernel/api/validate.js'
import { partReader, Recording, type SpanPart, type TraceRecord } from '../recording.js'
import { spanIdOf } from '../traceparent.js'
import type { TraceEnd, TraceStart } from '../../../kernel/index.js'

const START: TraceStart = {
  commandId: 'command-1', name: 'tts@1.0.0', arrivedMs: undefined, traceparent: undefined, member: false
}
const DONE: TraceEnd = { kind: 'completed', reason: null, taskId: null }
const ABOUT = { taskId: 'task-1', modelId: 'acme/voice', capability: 'tts' }
const BETA = { nodeId: 'node-b', installId: 'install-b' }
const RUNNER = { nodeId: null, installId: null }

interface Rig { clock: ManualClock, done: TraceRecord[], begin (start?: Partial<TraceStart>): Recording }

function rig (): Rig {
  const clock = manualClock(0)
  const done: TraceRecord[] = []
  let random = 0
  return {
    clock,
    done,
    begin: (start = {}) => new Recording({
      readPart: partReader({ checker: schemaChecker }),
      clock,
      randomHex: (bytes) => (++random).toString(16).padStart(2 * bytes, '0'),
      nodeId: 'node-a',
      nameOf: (nodeId) => nodeId === 'node-a' ? 'alpha' : 'beta',
      finished: (record) => { done.push(record) }
    }, { ...START, ...start })
  }
}

/** Spans of a process whose clock is `ahead` ms ahead of this one's. */
function part (from: number, to: number, ahead: number): SpanPart {
  let now = from + ahead
  const recorder = new SpanRecorder(() => now)
  recorder.span('prefill', 'prefill', from + ahead + 1, to + ahead - 1)
  now = to + ahead
  return JSON.parse(JSON.stringify(partOf(recorder, 'runner', from + ahead))) as SpanPart
}

const spanOf = (record: TraceRecord | undefined, name: string): TraceRecord['spans'][number] | undefined =>
  record?.spans.find((span) => span.name === name)

const parentOf = (record: TraceRecord | undefined, name: string): string | undefined =>
  record?.spans.find(({ id }) => id === spanOf(record, name)?.parent)?.name

t.test('spans of the node and of its runner, by the node\'s clock', async (t) => {
  const { clock, done, begin } = rig()
  await clock.advance(1000)
  const trace = begin({ arrivedMs: 990 })
  trace.task(ABOUT)
  const hop = trace.hop('runner', RUNNER)
  await clock.advance(100)
  // The runner worked from 1010 to 1090 by its own clock.
  hop.done(JSON.parse(JSON.stringify(part(1010, 1090, 5_000_000))))
  hop.done()
  await clock.advance(10)
  trace.series('write', 'client').add(1100, 1105)
  trace.end(DONE)
  trace.end(DONE)
  t.equal(done.length, 1)
  t.match(done[0], {
    taskId: 'task-1', commandId: 'command-1', modelId: 'acme/voice', taskKind: 'tts', outcome: 'completed',
    createdAt: '1970-01-01T00:00:00.990Z', durationUs: 120_000, traceId: /^[0-9a-f]{32}$/, parentSpanId: null,
    places: [{ nodeId: 'node-a', name: 'alpha', process: 'node' },
      { nodeId: 'node-a', name: 'alpha', process: 'runner' }],
    clocks: [{ nodeId: 'node-a', process: 'runner', offsetUs: 5_000_000_000, uncertaintyUs: 10_000 }]
  })
  t.same(done[0]?.spans.map(({ name, startUs, durationUs }) => [name, startUs, durationUs]), [
    ['request', 990_000, 120_000], ['parse', 990_000, 10_000], ['runner', 1_000_000, 100_000],
    ['prefill', 1_011_000, 78_000], ['write', 1_100_000, 5000]
  ])
  t.match(spanOf(done[0], 'runner')?.attrs,
    { clock_offset_us: 5_000_000_000, clock_uncertainty_us: 10_000 })
})

t.test('spans of another node and of its runner', async (t) => {
  const here = rig()
  await here.clock.advance(1000)
  const trace = here.begin({ traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' })
  trace.task(ABOUT)
  const hop = trace.hop('network', BETA, { node: 'beta' })
  t.match(hop.traceparent, /^00-0af7651916cd43dd8448eb211c80319c-(?!b7ad6b7169203331)[0-9a-f]{16}-01$/)

  // The other node's clock is 7,000 ms ahead; it worked on the task from 1010 to 1090.
  const there = rig()
  await there.clock.advance(8010)
  const member = there.begin({ member: true, traceparent: hop.traceparent })
  member.task(ABOUT)
  const inner = member.hop('runner', RUNNER)
  await there.clock.advance(80)
  inner.done(part(8020, 8080, 0))
  const sent: unknown = JSON.parse(JSON.stringify(member.part()))
  member.end(DONE)
  t.equal(there.done.length, 0, 'what was handed over is not kept')

  await here.clock.advance(100)
  hop.done(sent)
  trace.end(DONE)
  const [record] = here.done
  t.same(record?.places.map(({ nodeId, process }) => [nodeId, process]),
    [['node-a', 'node'], ['node-b', 'node'], ['node-b', 'runner']])
  t.match(record, { traceId: '0af7651916cd43dd8448eb211c80319c', parentSpanId: 'b7ad6b7169203331' })
  t.match(record?.clocks, [
    { nodeId: 'node-b', process: 'node', offsetUs: 7_000_000, uncertaintyUs: 10_000 },
    { nodeId: 'node-b', process: 'runner', offsetUs: 7_000_000, uncertaintyUs: 20_000 }
  ])
  t.match(spanOf(record, 'task'), { startUs: 1_010_000, durationUs: 80_000, place: 1 })
  t.match(spanOf(record, 'prefill'), { startUs: 1_021_000, durationUs: 58_000, place: 2 })
  t.same(['request', 'network', 'task', 'runner', 'prefill'].map((name) => parentOf(record, name)),
    [undefined, 'request', 'network', 'task', 'runner'])
  t.ok(hop.traceparent.includes(spanIdOf(record!.spanId, spanOf(record, 'network')!.id)))
})

t.test('a cancelled request waits a moment for its runner, and no longer', async (t) => {
  const { clock, done, begin } = rig()
  const trace = begin()
  trace.task(ABOUT)
  const hop = trace.hop('runner', RUNNER)
  trace.end({ kind: 'cancelled', reason: 'cancelled', taskId: null })
  t.equal(done.length, 0)
  await clock.advance(500)
  hop.done(part(0, 400, 0))
  t.match(spanOf(done[0], 'prefill'), { durationUs: 398_000 })
  t.match(done[0], { outcome: 'cancelled', reason: 'cancelled', durationUs: 0 })
  const lost = begin()
  lost.task(ABOUT)
  const late = lost.hop('runner', RUNNER)
  lost.end(DONE)
  await clock.advance(2000)
  t.equal(done.length, 2)
  late.done(part(0, 1, 0))
  t.equal(done.length, 2, 'what comes later changes nothing')
})

t.test('what another process says may be nonsense', async (t) => {
  const { clock, done, begin } = rig()
  const trace = begin()
  trace.task(ABOUT)
  const far = part(0, 10, 0)
  for (const said of [undefined, null, 'x', { spans: [] }, [], { ...far, places: 7 }]) {
    trace.hop('network', BETA).done(said)
  }
  const hop = trace.hop('network', BETA)
  await clock.advance(10)
  // A span of ten hours in a request of ten milliseconds.
  hop.done({ ...far, spans: [{ ...far.spans[0], durationUs: 36_000_000_000 }] })
  trace.end(DONE)
  t.equal(done[0]?.spans.filter(({ attrs }) => attrs['recorded'] === false).length, 6)
  t.equal(done[0]?.droppedSpans, 1)
  t.equal(spanOf(done[0], 'prefill'), undefined)
})

t.test('a wall clock that is set by an hour during a request moves and stretches nothing', async (t) => {
  for (const byMs of [3_600_000, -3_600_000]) {
    const { clock, done, begin } = rig()
    await clock.advance(7_200_000)
    const wall = clock.now.bind(clock)
    const trace = begin()
    trace.task(ABOUT)
    const hop = trace.hop('runner', RUNNER)
    await clock.advance(10)
    clock.now = () => wall() + byMs
    await clock.advance(90)
    hop.done(part(7_200_000, 7_200_100, 0))
    trace.end(DONE)
    t.match(done, [{ createdAt: '1970-01-01T02:00:00.000Z', durationUs: 100_000, droppedSpans: 0 }])
    t.same(done[0]?.spans.map(({ name, startUs, durationUs }) => [name, startUs - 7_200_000_000, durationUs]),
      [['request', 0, 100_000], ['runner', 0, 100_000], ['prefill', 1000, 98_000]])
  }
})

t.test('without a task nothing is kept; the header\'s task id will do', (t) => {
  const { done, begin } = rig()
  begin().end({ kind: 'failed', reason: 'no_instance', taskId: null })
  t.equal(done.length, 0)
  begin().end({ kind: 'failed', reason: 'unreachable', taskId: 'task-9' })
  t.match(done, [{ taskId: 'task-9', outcome: 'failed', reason: 'unreachable', taskKind: 'tts@1.0.0' }])
  t.end()
})

t.test('a trace has at most 4,096 spans, the rest is counted', (t) => {
  const { done, begin } = rig()
  const trace = begin()
  trace.task(ABOUT)
  const recorder = new SpanRecorder(() => 0)
  for (let i = 0; i < 2048; i++) recorder.span('x', 'x', 0, 0)
  for (let i = 0; i < 4; i++) trace.hop('runner', RUNNER).done(partOf(recorder, 'runner', 0))
  trace.note({ retried: true })
  trace.end(DONE)
  t.equal(done[0]?.spans.length, 4096)
  t.equal(done[0]?.droppedSpans, 4 * 2048 + 4 - 4095)
  t.match(done[0]?.spans[0]?.attrs, { call: 'tts@1.0.0', retried: true, outcome: 'completed' })
  t.end()
})
