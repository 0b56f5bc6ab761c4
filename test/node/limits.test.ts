import t from 'tap'
import { ask, call, dial, headOf, refusal } from './http.js'
import { does, TTS } from './engine.js'
import { faultsConfig, figure, inTime, pick, secondsSince, sleep, startNode, until } from './kit.js'
import { quiet } from './cluster-kit.js'
import { rss, sockets } from './proc.js'
import type { Raw } from './http.js'
import type { TestNode } from './kit.js'

/** Seconds between Node's checks for timed-out requests; a timeout may come late by that much. */
const CHECK_SECONDS = 5
const SLACK_SECONDS = 3
const timers = {
  headers: pick(2, 10), request: pick(3, 30), keepAlive: pick(2, 15), stall: pick(2, 30)
}
const many = pick(100, 500)
const each = pick(10, 200)

const endless = (bytes: number, delayMs: number): object => does('test/ok', 'count', { bytes, delayMs })

/** Samples /healthz until stopped; returns the sorted response times in ms. */
function watch (node: TestNode): () => Promise<number[]> {
  let on = true
  const times: number[] = []
  const work = (async () => {
    while (on) {
      const start = performance.now()
      if ((await ask(node, '/healthz')).status === 200) times.push(performance.now() - start)
      await sleep(20)
    }
  })()
  return async () => { on = false; await work; return times.sort((a, b) => a - b) }
}

t.test('slow, broken and disconnected clients', async (t) => {
  const node = await startNode(t, { config: faultsConfig({ limits: {
    headers_timeout_seconds: timers.headers, request_timeout_seconds: timers.request,
    keep_alive_seconds: timers.keepAlive,
    stream_stall_seconds: timers.stall, calls_at_once: 512, calls_queued: 512, streams_per_token: 1024
  } }, { max_concurrent: 512 }) })

  t.test('T-H01 and T-H02: headers and bodies one byte at a time', async (t) => {
    const start = performance.now()
    const stop = watch(node)
    const socketsBefore = sockets(node.pid)
    const slow = await Promise.all(Array.from({ length: many }, () => dial(node.port)))
    const bodies = await Promise.all(Array.from({ length: 5 }, () => dial(node.port)))
    for (const { socket } of slow) socket.write('GET /healthz HTTP/1.1\r\nhost: ')
    for (const { socket } of bodies) {
      socket.write(headOf(node, 'POST', '/v1/audio/speech', ['content-type: application/json',
        'content-length: 1000']))
    }
    const drip = setInterval(() => {
      for (const { socket } of [...slow, ...bodies]) if (!socket.destroyed &&
        socket.writable) socket.write('1')
    }, 1000)
    const allow = timers.headers + CHECK_SECONDS + SLACK_SECONDS
    await until('the slow headers are cut off', () => slow.every((s) => s.isClosed()))
    const headerSeconds = secondsSince(start)
    await until('the slow bodies are cut off', () => bodies.every((s) => s.isClosed()))
    const bodySeconds = secondsSince(start)
    clearInterval(drip)
    const times = await stop()
    const p99 = times[Math.floor(times.length * 0.99)] ?? Infinity
    for (const { text } of bodies) {
      t.match(text(), /^HTTP\/1\.1 408 /)
      t.match(JSON.parse(text().split('\r\n\r\n')[1]!), { error: { reason: 'request_timeout', code: 408 } })
    }
    await until('their descriptors are back', () => sockets(node.pid) <= socketsBefore + 1)
    figure(t, 'T-H01', headerSeconds >= timers.headers && inTime(headerSeconds, allow) &&
    inTime(p99, 200),
    { sockets: many, headerSeconds, apiP99Ms: Math.round(p99) })
    figure(t, 'T-H02', bodySeconds >= timers.request, { bodySeconds })
  })

  t.test('T-H03: bodies over the limit, endless and in tiny pieces', async (t) => {
    // The timeout must allow the node to read all 43,690 chunks of 6 bytes, which on a busy machine takes
    // longer than the short timeout of the other tests.
    const node = await startNode(t, { config: faultsConfig({ limits: { request_timeout_seconds: 300 } }) })
    const before = rss(node.pid)
    const exact = 256 * 1024
    const label = JSON.stringify({ label: '@', authorities: ['read'] })
    const sized = (n: number): string => label.replace('@', 'x'.repeat(n - label.length + 1))
    t.equal((await ask(node, '/v1/tokens', { raw: sized(exact) })).status, 400,
      'at the limit: read, then refused by its schema')
    t.equal(refusal(await ask(node, '/v1/tokens', { raw: sized(exact + 1) }))?.reason, 'payload_too_large')
    const crumbs = ['crumbs', Buffer.from('xxxxxx')] as const
    for (const [name, piece] of [['endless chunks', Buffer.alloc(64 * 1024, 'x')], crumbs, crumbs,
      crumbs] as const) {
      const raw = await dial(node.port)
      raw.socket.write(headOf(node, 'POST', '/v1/capabilities/stream', ['content-type: application/json',
        'transfer-encoding: chunked']))
      const framed = Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece,
        Buffer.from('\r\n')])
      const batch = piece.length > 100 ? framed : Buffer.concat(Array.from({ length: 1000 }, () => framed))
      let sent = 0
      while (!raw.isClosed() && sent < 64e6 && raw.text() === '') {
        sent += batch.length
        if (!raw.socket.write(batch)) await Promise.race([new Promise((resolve) => raw.socket.once('drain',
          resolve)), raw.closed])
        await sleep(0)
      }
      t.match(raw.text(), /^HTTP\/1\.1 413 /, `${name}: ended after ${sent} bytes`)
      raw.socket.destroy()
    }
    const grown = rss(node.pid) - before
    t.equal((await ask(node, '/healthz')).status, 200)
    figure(t, 'T-H03', grown < 80e6, { grownMB: Math.round(grown / 1e6) })
  })

  t.test('T-H04: addresses, headers and ids over every size limit', async (t) => {
    const long = await dial(node.port)
    long.socket.write(`GET /${'a'.repeat(64 * 1024)} HTTP/1.1\r\nhost: 127.0.0.1:${node.port}\r\n\r\n`)
    const headers = await dial(node.port)
    headers.socket.write(headOf(node, 'GET', '/healthz', Array.from({ length: 2000 },
      (_, i) => `x-header-${i}: v`)))
    for (const [name, raw] of [['64 KiB address', long], ['2,000 headers', headers]] as const) {
      await until(`the answer to ${name}`, () => raw.text().includes('\r\n\r\n') && raw.isClosed())
      t.match(raw.text(), /^HTTP\/1\.1 (414|431) /, name)
      t.match(JSON.parse(raw.text().split('\r\n\r\n')[1]!), { error: { code: /414|431/, requestId: String } })
    }
    for (const [path, status] of [
      [`/v1/tokens/${'x'.repeat(600)}`, 414], [`/v1/tokens/${'x'.repeat(500)}`, 400],
      ['/v1/tokens/..%2f..%2fetc%2fpasswd', 404],
      ['/v1/tokens/a%00b', 404], ['/v1/tokens/%zz', 400], [`/v1/cancel/${'x'.repeat(600)}`, 414]
    ] as const) {
      const answer = await ask(node, path, { method: path.includes('cancel') ? 'POST' : 'DELETE' })
      t.equal(answer.status, status, `${path.slice(0, 40)}: ${answer.text.slice(0, 120)}`)
      t.equal(refusal(answer)?.code, status)
    }
    for (const [name, bytes] of [['not HTTP', 'hello\r\n\r\n'],
      ['TLS', '\u0016\u0003\u0001\u0002\u0000\u0001'],
      ['two lengths', headOf(node, 'POST', '/v1/tokens', ['content-length: 3', 'content-length: 5'])],
      ['length and chunks', headOf(node, 'POST', '/v1/tokens', ['content-length: 3',
        'transfer-encoding: chunked'])]] as const) {
      const raw = await dial(node.port)
      raw.socket.write(bytes)
      await until(`${name} is refused`, () => raw.isClosed())
      t.match(raw.text(), /^HTTP\/1\.1 400 /, name)
    }
    figure(t, 'T-H04', t.passing(), {})
  })

  t.test('T-H05: clients that disconnect or fall silent', async (t) => {
    const before = sockets(node.pid)
    const start = performance.now()
    for (const silent of [false, true]) {
      const opened = await Promise.all([halfOpen(node, silent), streams(node, silent),
        upgrades(node, silent)])
      await until('all their sockets are freed', () => sockets(node.pid) <= before, { seconds: 45 })
      for (const raw of opened.flat()) raw.socket.destroy()
    }
    await until('the runner is idle', async () => {
      const { tasks } = (await ask(node, '/state')).json as { tasks: Record<string,
        { Inference: { status: string } }> }
      return Object.values(tasks).every(({ Inference: { status } }) => status !== 'Running' &&
        status !== 'Pending')
    })
    await until('every descriptor is back', () => sockets(node.pid) <= before)
    figure(t, 'T-H05', t.passing(), { each, seconds: Math.round(secondsSince(start)) })
  })
})

/** Connections that are idle after one request; with `silent` they stay open, otherwise they are reset. */
async function halfOpen (node: TestNode, silent: boolean): Promise<Raw[]> {
  const raws = await Promise.all(Array.from({ length: each }, () => dial(node.port)))
  for (const { socket } of raws) socket.write(headOf(node, 'GET', '/healthz'))
  await until('answers', () => raws.every((r) => r.text().includes('{"ok":true}')))
  for (const { socket } of raws) if (!silent) socket.resetAndDestroy()
  return raws
}

/**
 * Streams whose clients stop reading (`silent`) or reset the connection. There are fewer silent ones, because
 * the system buffers some megabytes of each before the node notices.
 */
async function streams (node: TestNode, silent: boolean): Promise<Raw[]> {
  const count = silent ? pick(10, 40) : each
  const body = JSON.stringify(call(node, TTS, endless(16 * 1024, 1)))
  const raws = await Promise.all(Array.from({ length: count }, () => dial(node.port)))
  for (const { socket } of raws) {
    socket.write(headOf(node, 'POST', '/v1/capabilities/stream',
      ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]) + body)
  }
  await until('chunks', () => raws.every((r) => r.bytes() > 20_000), { seconds: 60 })
  for (const { socket } of raws) {
    if (silent) socket.pause()
    else socket.resetAndDestroy()
  }
  return raws
}

/** WebSockets that have just opened, a third of them with an incomplete handshake. */
async function upgrades (node: TestNode, silent: boolean): Promise<Raw[]> {
  const handshake = headOf(node, 'GET', '/v1/capabilities/session', ['connection: Upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13', 'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=='])
  const raws = await Promise.all(Array.from({ length: each }, () => dial(node.port)))
  raws.forEach(({ socket }, i) => { socket.write(i % 3 === 0 ? handshake.slice(0, -30) : handshake) })
  await until('upgrades', () => raws.every((r, i) => i % 3 === 0 || r.text().startsWith('HTTP/1.1 101')))
  for (const { socket } of raws) if (!silent) socket.resetAndDestroy()
  return raws
}

t.test('silent clients up to a low limit of open files', async (t) => {
  const before = ['bash', '-c', 'ulimit -n 256 && exec "$0" "$@"']
  const node = await startNode(t, { config: quiet, ready: false, before })
  const silent = await Promise.all(Array.from({ length: 256 }, () => dial(node.port)))
  for (let i = 0; i < 20; i++) t.equal((await ask(node, '/healthz')).status, 200)
  t.ok(silent.some((one) => one.isClosed()), 'the oldest silent ones made room')
  t.ok(silent.some((one) => !one.isClosed()))
})
