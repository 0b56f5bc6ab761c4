import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { systemClock } from '../../../kernel/index.js'
import { failureOf, LogShipper, type ShipperOptions } from '../ship.js'

t.test('what an answer means for the batch', async (t) => {
  for (const status of [200, 204]) t.equal(failureOf(status, '', 0), null)
  for (const status of [301, 401, 404, 408, 415, 429, 500, 503]) {
    t.match(failureOf(status, '', 0), { refused: false, waitMs: 0 }, `${status}`)
  }
  for (const status of [400, 413, 422]) t.match(failureOf(status, '', 0), { refused: true }, `${status}`)
  const now = Date.parse('2026-01-31T08:00:00Z')
  const waits: [string, number][] = [
    ['7', 7000], ['86400', 300_000], ['Sat, 31 Jan 2026 08:00:30 GMT', 30_000], ['soon', 0], ['', 0]
  ]
  for (const [retryAfter, waitMs] of waits) t.match(failureOf(503, retryAfter, now), { waitMs }, retryAfter)
  t.ok(failureOf(503, 'Sat, 31 Jan 2026 07:00:00 GMT', now)!.waitMs < 0)
})

type Behave = (request: IncomingMessage, response: ServerResponse, lines: string[]) => void

interface Receiver {
  url: string
  /** Lines received in requests that were answered with 2xx. */
  got: string[]
  requests: { lines: number }[]
  behave: Behave
}

const take: Behave = (_request, response) => { response.writeHead(204).end() }

/** A receiver on loopback; accepts everything by default. */
async function receiver (t: Test, behave: Behave = take): Promise<Receiver> {
  const made: Receiver = { url: '', got: [], requests: [], behave }
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => { parts.push(part) })
    request.on('error', () => {})
    request.on('end', () => {
      const lines = String(Buffer.concat(parts)).trimEnd().split('\n')
      made.requests.push({ lines: lines.length })
      response.on('finish', () => { if (response.statusCode < 300) made.got.push(...lines) })
      made.behave(request, response, lines)
    })
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.closeAllConnections(); server.close() })
  made.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/in?key=k`
  return made
}

/** A clock that runs a hundred times faster than real time. */
const quick = { ...systemClock, after: (ms: number, fn: () => void) => systemClock.after(ms / 100, fn) }

/** A send timeout of 30 s of real time, so that a busy machine causes no second request. */
const patient = { sendTimeoutMs: 3_000_000 }

function ship (
  t: Test, url: string, { limits = {}, ...more }: Partial<ShipperOptions> = {}
): { shipper: LogShipper, changes: unknown[] } {
  const changes: unknown[] = []
  const shipper = new LogShipper({
    url, clock: quick, random: () => 0, log: { warn: (fields: unknown) => { changes.push(fields) } }, ...more,
    limits: { ...patient, ...limits }
  })
  t.teardown(async () => { await shipper.close() })
  return { shipper, changes }
}

const line = (n: number, pad = 0): string => `{"n":${n},"pad":"${'x'.repeat(pad)}"}\n`
const numbers = (lines: readonly string[]): number[] =>
  lines.map((one) => (JSON.parse(one) as { n: number }).n)
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)

async function until (what: string, holds: () => boolean): Promise<void> {
  const end = performance.now() + 20_000
  while (!holds()) {
    if (performance.now() > end) throw new Error(`never happened: ${what}`)
    await new Promise((resolve) => { setTimeout(resolve, 5) })
  }
}

t.test('a receiver that fails and returns gets every line once and in order', async (t) => {
  const at = await receiver(t, (_request, response) => { response.writeHead(500).end() })
  const { shipper, changes } = ship(t, at.url)
  for (const n of range(0, 1200)) shipper.push(line(n))
  await until('three failures', () => shipper.shipping.failures >= 3)
  t.match(shipper.shipping, { sent: 0, dropped: 0, problem: 'it answered 500', lastSentAt: null })
  t.same(changes, [{ problem: 'it answered 500' }], 'it is reported once')
  at.behave = take
  await until('all lines', () => at.got.length >= 1200)
  t.same(numbers(at.got), range(0, 1200))
  t.ok(at.requests.every(({ lines }) => lines <= 500))
  t.match(changes[1], { dropped: 0 })
  await until('the counts', () => shipper.shipping.sent === 1200)
  t.match(shipper.shipping, { failures: 0, problem: null, waiting: 0, waitingBytes: 0, lastSentAt: /^2/ })
})

t.test('a line that comes as the last batch is done is sent, whichever moment it takes', async (t) => {
  const at = await receiver(t)
  for (const moment of range(0, 12)) {
    let later: (() => void) | null = null
    const now = (): number => {
      const push = later
      later = null
      if (push !== null) void after(moment).then(push)
      return quick.now()
    }
    const { shipper } = ship(t, at.url, { clock: { ...quick, now } })
    later = () => { shipper.push(line(100 + moment)) }
    shipper.push(line(moment))
  }
  await until('all of them', () => at.got.length === 24)
  t.same(numbers(at.got).sort((a, b) => a - b), [...range(0, 12), ...range(100, 112)])
})

async function after (turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await null
}

t.test('lines and bytes that wait are bounded: the oldest are dropped, counted and told', async (t) => {
  const at = await receiver(t)
  const { shipper, changes } = ship(t, at.url, { limits: { queuedLines: 100 } })
  for (const n of range(0, 150)) shipper.push(line(n))
  t.equal(shipper.shipping.dropped, 50)
  await until('what is left', () => at.got.length === 100)
  t.same(numbers(at.got), range(50, 150))
  await until('the line about it', () => changes.length > 0)
  t.same(changes, [{ failures: 0, dropped: 50 }])

  const heavy = ship(t, at.url, { limits: { queuedBytes: 64 * 1024 } }).shipper
  for (const n of range(0, 100)) heavy.push(line(n, 2000))
  const { waiting, waitingBytes, dropped } = heavy.shipping
  t.ok(waitingBytes <= 64 * 1024 && waiting + dropped === 100, `${waiting} lines, ${waitingBytes} bytes wait`)
  heavy.push(line(0, 300 * 1024))
  t.equal(heavy.shipping.dropped, dropped + 1, 'a line that no receiver takes')
})

t.test('a receiver that stalls holds nobody up, and is tried again', async (t) => {
  const at = await receiver(t, () => {})
  const { shipper, changes } = ship(t, at.url, { limits: { sendTimeoutMs: 10_000 } })
  shipper.push(line(1))
  await until('a timeout', () => shipper.shipping.failures > 0)
  t.match(changes, [{ problem: 'no response within 10000 ms' }])
  at.behave = (_request, response) => { response.writeHead(200).write('it goes on') }
  await until('an answer without an end', () => shipper.shipping.sent === 1)
  at.behave = take
  shipper.push(line(2))
  await until('the next line', () => at.got.length > 0)
  t.same([...new Set(numbers(at.got))], [2])
})

t.test('closing is bounded while the receiver stalls, and sends what waits where it does not', async (t) => {
  const stalled = await receiver(t, () => {})
  const first = ship(t, stalled.url, { limits: { sendTimeoutMs: 1e9, closeMs: 5000 } }).shipper
  first.push(line(1))
  await until('the request', () => stalled.requests.length === 1)
  await first.close()
  t.match(first.shipping, { sent: 0, waiting: 1, problem: 'the node is stopping' })
  first.push(line(2))
  t.equal(first.shipping.waiting, 1, 'nothing more is taken')

  const at = await receiver(t)
  const second = ship(t, at.url, { clock: systemClock }).shipper
  for (const n of range(0, 700)) second.push(line(n))
  await second.close()
  t.same(numbers(at.got), range(0, 700), 'both batches, without the pause before them')

  const failing = await receiver(t, (_request, response) => { response.writeHead(503).end() })
  const third = ship(t, failing.url, { clock: systemClock }).shipper
  for (const n of range(0, 700)) third.push(line(n))
  await third.close()
  t.equal(failing.requests.length, 1, 'a last attempt, no more')
})

t.test('a connection that breaks in the middle is another failure', async (t) => {
  const at = await receiver(t, (request) => { request.socket.destroy() })
  const { shipper } = ship(t, at.url)
  shipper.push(line(1))
  await until('a failure', () => shipper.shipping.failures > 0)
  t.match(shipper.shipping.problem, /UND_ERR_SOCKET|ECONNRESET/)
  at.behave = take
  await until('the line', () => at.got.length === 1)
})

t.test('nobody listens', async (t) => {
  const { shipper, changes } = ship(t, 'http://127.0.0.1:1/secret?key=k')
  shipper.push(line(1))
  await until('a failure', () => shipper.shipping.failures > 0)
  t.same(changes, [{ problem: 'ECONNREFUSED' }], 'without the address')
})

t.test('lines that the receiver refuses do not keep others waiting', async (t) => {
  const at = await receiver(t, (_request, response, lines) => {
    response.writeHead(numbers(lines).includes(1) ? 422 : 204).end()
  })
  const { shipper, changes } = ship(t, at.url)
  shipper.push(line(1))
  await until('the refusal', () => shipper.shipping.dropped === 1)
  shipper.push(line(2))
  await until('the next', () => at.got.length === 1)
  await until('the news', () => changes.length === 2)
  t.match(changes,
    [{ problem: 'it answered 422' }, { failures: 1, dropped: 1 }])
})

t.test('redirects are not followed', async (t) => {
  const other = await receiver(t)
  const at = await receiver(t, (_request, response) => {
    response.writeHead(307, { location: other.url }).end()
  })
  const { shipper } = ship(t, at.url)
  shipper.push(line(1))
  await until('two failures', () => shipper.shipping.failures > 1)
  t.match(shipper.shipping.problem, /307: redirects are not followed/)
  t.equal(other.requests.length, 0)
})

t.test('Retry-After is waited for', async (t) => {
  const at = await receiver(t, (_request, response) => {
    response.writeHead(429, { 'retry-after': '120' }).end()
  })
  const pauses: number[] = []
  const clock = {
    ...systemClock,
    after: (ms: number, fn: () => void) => {
      pauses.push(ms)
      return systemClock.after(ms / 1000, fn)
    }
  }
  const { shipper } = ship(t, at.url, { clock, limits: { sendTimeoutMs: 1e7 } })
  shipper.push(line(1))
  await until('two attempts', () => at.requests.length >= 2)
  t.ok(pauses.includes(120_000), String(pauses))
})
