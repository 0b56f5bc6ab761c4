import t from 'tap'
import { createTracers, timed, traceHeaders, type Hop, type Trace } from '../observe/tracer.js'

t.test('without a tracer, and while it is off, nothing begins', async (t) => {
  const tracers = createTracers()
  const start = { commandId: 'c', name: 'tts', arrivedMs: undefined, traceparent: undefined, member: false }
  t.notOk(tracers.on)
  t.equal(tracers.begin({ ...start, member: true }), undefined)
  const trace = { span: () => {}, now: () => 0 } as unknown as Trace
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
  const hop: Hop = { traceparent: 'x', done: () => {} }
  t.same(traceHeaders(hop), { 'x-svc-trace': '1', traceparent: 'x' })
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
