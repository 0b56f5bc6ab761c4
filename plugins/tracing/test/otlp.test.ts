import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { createOtlp, type Otlp } from '../otlp.js'
import { record } from './samples.js'
import type { TraceCounters } from '../service.js'

type Mood = 'takes' | 'refuses' | 'stalls'
interface Got { path: string | undefined, headers: Record<string, unknown>, body: { resourceSpans: Sent[] } }
interface Sent { resource: { attributes: object[] }, scopeSpans: { spans: Record<string, unknown>[] }[] }

/** An OTLP receiver whose behaviour the test chooses. */
async function receiver (
  t: Test
): Promise<{ url: string, got: Got[], held: ServerResponse[], mood: { is: Mood } }> {
  const got: Got[] = []
  const held: ServerResponse[] = []
  const mood: { is: Mood } = { is: 'takes' }
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => { parts.push(part) })
    request.on('end', () => {
      if (mood.is === 'stalls') held.push(response)
      else if (mood.is === 'refuses') response.writeHead(400).end()
      else {
        const body = JSON.parse(Buffer.concat(parts).toString()) as Got['body']
        got.push({ path: request.url, headers: request.headers, body })
        response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
      }
    })
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.closeAllConnections(); server.close() })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`, got, held, mood }
}

interface Exporter { otlp: Otlp, counters: TraceCounters, warned: object[], clock: ManualClock }

function exporter (t: Test, url: string, timeoutMs = 300): Exporter {
  const counters: TraceCounters = {
    recorded: 0, written: 0, droppedQueue: 0, droppedDisk: 0, droppedSpans: 0, exported: 0, exportDropped: 0
  }
  const warned: object[] = []
  const none = (): void => {}
  const clock = manualClock()
  const otlp = createOtlp({
    url, counters, timeoutMs, headers: { authorization: 'Bearer secret' }, clock,
    node: { name: 'alpha', nodeId: 'node-a', version: '1.2.3' },
    log: { debug: none, info: none, error: none, fatal: none, warn: (fields) => { warned.push(fields) } }
  })
  t.teardown(() => otlp.close())
  return { otlp, counters, warned, clock }
}

t.test('a trace as OpenTelemetry knows it', async (t) => {
  const { url, got } = await receiver(t)
  const { otlp, counters } = exporter(t, url)
  otlp.push(record({ parentSpanId: '00f067aa0ba902b7', outcome: 'failed', reason: 'timeout' }))
  await otlp.idle()
  t.match(counters, { exported: 1, exportDropped: 0 })
  const [{ headers, body }] = got as [Got]
  t.match(headers, { authorization: 'Bearer secret', 'content-type': 'application/json' })
  const [sent] = body.resourceSpans as [Sent]
  t.match(sent.resource.attributes, [
    { key: 'service.name', value: { stringValue: 'svc' } },
    { key: 'service.version', value: { stringValue: '1.2.3' } },
    { key: 'service.instance.id', value: { stringValue: 'node-a' } }
  ])
  const [root, decode] = sent.scopeSpans[0]!.spans
  t.match(root, {
    name: 'chat acme/lm', traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331',
    parentSpanId: '00f067aa0ba902b7', kind: 2, startTimeUnixNano: '1000000', endTimeUnixNano: '10000000',
    status: { code: 2 }
  })
  const said = new Map((root!['attributes'] as { key: string, value: object }[]).map((a) => [a.key, a.value]))
  t.match(said.get('gen_ai.request.model'), { stringValue: 'acme/lm' })
  t.match(said.get('gen_ai.operation.name'), { stringValue: 'chat' })
  t.match(said.get('error.type'), { stringValue: 'timeout' })
  t.match(decode, { name: 'decode', parentSpanId: 'b7ad6b7169203331', kind: 1, spanId: /^[0-9a-f]{16}$/ })
})

t.test('an address without a path is the base of the path that receivers expect', async (t) => {
  const { url, got } = await receiver(t)
  const { origin } = new URL(url)
  const rows = [
    [origin, '/v1/traces'], [`${origin}/`, '/v1/traces'], [`${origin}/?key=1`, '/v1/traces?key=1'],
    [`${origin}/otlp`, '/otlp'], [`${origin}/v1/traces/`, '/v1/traces/']
  ] as const
  for (const [given, path] of rows) {
    const { otlp, counters } = exporter(t, given)
    otlp.push(record())
    await otlp.idle()
    t.match(counters, { exported: 1, exportDropped: 0 }, given)
    t.equal(got.at(-1)?.path, path, given)
  }
})

t.test('a receiver that refuses, stalls and returns', async (t) => {
  const { url, got, mood } = await receiver(t)
  const { otlp, counters, warned } = exporter(t, url)
  mood.is = 'refuses'
  otlp.push(record())
  await otlp.idle()
  t.match(counters, { exported: 0, exportDropped: 1 })
  mood.is = 'stalls'
  for (let n = 0; n < 2; n++) otlp.push(record())
  await otlp.idle()
  t.match(counters, { exported: 0, exportDropped: 3 })
  t.equal(warned.length, 1, 'told once a minute')
  t.notMatch(JSON.stringify(warned), 'secret')
  mood.is = 'takes'
  otlp.push(record())
  await otlp.idle()
  t.match(counters, { exported: 1, exportDropped: 3 })
  t.equal(got.length, 1)
})

t.test('what waits is bounded, and nobody waits for it', async (t) => {
  const { url, mood } = await receiver(t)
  const { otlp, counters } = exporter(t, url)
  mood.is = 'stalls'
  for (let n = 0; n < 100; n++) otlp.push(record())
  t.ok(counters.exportDropped >= 35, `${counters.exportDropped} dropped at once`)
  await otlp.close()
  otlp.push(record())
  await otlp.idle()
  t.equal(counters.exported + counters.exportDropped, 101)
})

t.test('an address that is none is told of, and ends like any other', async (t) => {
  const { otlp, counters, warned } = exporter(t, 'http://[')
  otlp.push(record())
  await otlp.idle()
  t.match(counters, { exported: 0, exportDropped: 1 })
  t.match(warned, [{ error: /Could not parse|Invalid/ }])
  await t.resolves(otlp.close())
})

t.test('a receiver that stalls does not hold up the stop', async (t) => {
  const { url, held, mood } = await receiver(t)
  const { otlp, clock, counters } = exporter(t, url, 60_000)
  mood.is = 'stalls'
  otlp.push(record())
  while (held.length === 0) await turn()
  let over = false
  const closing = otlp.close().then(() => { over = true })
  await turn()
  t.notOk(over, 'what is under way has a moment')
  await clock.advance(2000)
  await closing
  t.match(counters, { exported: 0, exportDropped: 0 })
  for (const response of held) response.writeHead(400).end()
  await otlp.idle()
  t.match(counters, { exportDropped: 1 })
})
