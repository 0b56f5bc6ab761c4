import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { Bucket, relayLimits, Visitors } from '../server/limits.js'
import { closes, paths, readHello, readTexts, writeHello } from '../wire.js'
import { claimed, identity, knock, relayFor, until, type Tearing } from './relay-kit.js'

async function joined (t: Tearing & { equal (a: unknown, b: unknown): void }, url: string) {
  const node = await claimed(t, url)
  t.equal(await node.next(), JSON.stringify({ route: node.route }))
  const device = await knock(t, url, 'device')
  device.say({ route: node.route })
  device.ws.send(Buffer.from('hello'))
  const { device: ticket } = JSON.parse(String(await node.next())) as { device: string }
  const accepting = await knock(t, url, 'accept')
  accepting.say({ ticket })
  t.equal(String(await accepting.next()), 'hello')
  return { node, device, accepting, ticket }
}

t.test('a relay passes on what a node and a device say, both ways, and tells the end', async (t) => {
  const { url, router } = await relayFor(t)
  const { device, accepting, ticket } = await joined(t, url)
  accepting.ws.send(Buffer.from('and back'))
  t.equal(String(await device.next()), 'and back')
  t.same(router.counts, { nodes: 1, devices: 1, waiting: 0 })
  const again = await knock(t, url, 'accept')
  again.say({ ticket })
  t.equal(await again.closed, closes.nobody, 'a ticket is good once')
  device.ws.close()
  await accepting.closed
  await until(() => router.counts.devices === 0)
})

t.test('a route belongs to who proves its key, at this relay, now', async (t) => {
  const { url, router } = await relayFor(t)
  const other = await claimed(t, url, identity(), 'relay.example')
  t.equal(await other.closed, closes.unproven, 'made for another relay')
  const mine = await claimed(t, url)
  await mine.next()
  const forged = await knock(t, url, 'node')
  await forged.next()
  forged.say({ key: Buffer.from(mine.node.publicKey).toString('base64url'), signature: 'A'.repeat(86) })
  t.equal(await forged.closed, closes.unproven)
  const odd = await knock(t, url, 'node')
  odd.say({ key: 'AA', signature: '' })
  t.equal(await odd.closed, closes.unproven)
  t.same(router.counts.nodes, 1)
  const again = await claimed(t, url, mine.node)
  t.equal(await again.next(), JSON.stringify({ route: mine.route }))
  t.equal(await mine.closed, closes.replaced)
  t.same(router.counts.nodes, 1)
  again.say({ anything: 'else' })
  t.equal(await again.closed, closes.wrong)
  await until(() => router.counts.nodes === 0)
})

t.test('a device hears the same, as late, of a route that is unknown, full or not served', async (t) => {
  const limits = { ...relayLimits, refuseMs: 60, joinMs: 60, devicesPerRoute: 1 }
  const { url, router } = await relayFor(t, { limits })
  const node = await claimed(t, url)
  await node.next()
  const waits = await knock(t, url, 'device')
  waits.say({ route: node.route })
  await node.next()
  const full = await knock(t, url, 'device')
  full.say({ route: node.route })
  const unknown = await knock(t, url, 'device')
  unknown.say({ route: 'A'.repeat(43) })
  t.same(await Promise.all([waits, full, unknown].map(({ closed }) => closed)),
    [closes.nobody, closes.nobody, closes.nobody])
  await until(() => router.counts.waiting === 0)
})

t.test('who says something else, nothing, or too much is closed', async (t) => {
  const { url } = await relayFor(t, { limits: { ...relayLimits, firstMs: 50, refuseMs: 20 } })
  for (const path of Object.keys(paths) as (keyof typeof paths)[]) {
    const silent = await knock(t, url, path)
    t.equal(await silent.closed, closes.wrong, `${path}: nothing`)
    const odd = await knock(t, url, path)
    odd.ws.send('{"route":')
    t.equal(await odd.closed, closes.wrong, `${path}: no JSON`)
  }
  const node = await claimed(t, url)
  await node.next()
  const eager = await knock(t, url, 'device')
  eager.say({ route: node.route })
  eager.ws.send(Buffer.from('one'))
  eager.ws.send(Buffer.from('two'))
  t.equal(await eager.closed, closes.wrong, 'more than a handshake')
  const huge = await knock(t, url, 'device')
  huge.ws.send(Buffer.alloc(70_000))
  t.equal(await huge.closed, 1009)
})

t.test('a reader that takes nothing keeps its sender from sending, and is closed in the end', async (t) => {
  const limits = { ...relayLimits, queuedBytes: 128 * 1024, stallMs: 400 }
  const { url, router } = await relayFor(t, { limits })
  const { device, accepting } = await joined(t, url)
  device.ws.pause()
  const message = Buffer.alloc(60_000)
  let most = 0
  const look = (): void => { most = Math.max(most, router.traffic.queued) }
  for (let i = 0; i < 400; i++) accepting.ws.send(message, look)
  await accepting.closed
  t.ok(most <= 128 * 1024 + 60_000, `${most} bytes waited`)
  t.equal(router.traffic.queued, 0)
})

t.test('a route that sends more than its rate waits, and loses nothing', async (t) => {
  const { url } = await relayFor(t, { limits: { ...relayLimits, bytesPerSecond: 400_000 } })
  const { device, accepting } = await joined(t, url)
  for (let i = 0; i < 10; i++) accepting.ws.send(Buffer.alloc(50_000, i))
  for (let i = 0; i < 10; i++) t.equal((await device.next())[0], i)
})

t.test('places are limited, in all and by address', async (t) => {
  const clock = manualClock()
  const limits = { ...relayLimits, connections: 4, connectionsPerAddress: 2,
    newPerAddress: { burst: 3, perSecond: 1 } }
  const visitors = new Visitors(limits, clock)
  const first = visitors.enter('a', false)
  visitors.enter('a', false)
  t.equal(visitors.enter('a', false), undefined, 'two are open')
  first!()
  first!()
  const third = visitors.enter('a', false)
  third!()
  t.equal(visitors.enter('a', false), undefined, 'three were new')
  await clock.advance(1000)
  t.ok(visitors.enter('a', false))
  t.ok(visitors.enter('b', true))
  t.ok(visitors.enter('b', true))
  t.equal(visitors.enter('b', true), undefined, 'four are open')
  t.equal(visitors.open, 4)
  const bucket = new Bucket(clock, 100, 50)
  t.same([bucket.take(100), bucket.take(25)], [0, 500])
  await clock.advance(500)
  t.equal(bucket.take(0), 0)
})

t.test('what is no relay\'s business is refused, and what it counts is for its own machine', async (t) => {
  const relay = await relayFor(t, { proxied: true })
  const get = async (path: string, headers = {}): Promise<[number, string]> => {
    const answer = await fetch(`${relay.url}${path}`, { headers })
    return [answer.status, await answer.text()]
  }
  t.same(await get('/healthz'), [200, '{"ok":true}'])
  t.same(await get('/'), [404, ''])
  const node = await claimed(t, relay.url)
  await node.next()
  const [status, text] = await get('/metrics')
  t.equal(status, 200)
  t.match(text, /^svc_relay_nodes 1$/m)
  t.match(text, /^svc_relay_refused_total\{why="nobody"\} 0$/m)
  t.notMatch(text, node.route)
  t.equal((await get('/metrics', { 'x-forwarded-for': '127.0.0.1, 203.0.113.9' }))[0], 404)
  const socket = connect(relay.port, '127.0.0.1')
  socket.write('GET /v1/other HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n')
  t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 404 /)
})

t.test('connections that do not answer are closed', async (t) => {
  const { url, router } = await relayFor(t, { limits: { ...relayLimits, pingMs: 40 } })
  const dead = await claimed(t, url)
  await dead.next()
  t.equal(router.counts.nodes, 1)
  dead.ws.pause()
  const alive = await claimed(t, url)
  await alive.next()
  while (router.counts.nodes > 1) await once(alive.ws, 'ping')
  t.equal(alive.ws.readyState, alive.ws.OPEN)
})

t.test('what a node says first comes back as it was written, and nothing else does', async (t) => {
  t.same(readHello(writeHello('n-1', 1_700_000_000_000)), { nodeId: 'n-1', timeMs: 1_700_000_000_000 })
  for (const odd of ['', '{}', '{"nodeId":"x"}', '{"nodeId":"x","time":"soon"}', '{"nodeId":1,"time":"1"}']) {
    t.equal(readHello(Buffer.from(odd)), undefined, odd)
  }
})

t.test('texts of the protocol are read strictly', async (t) => {
  const read = (text: string, binary = false): unknown => readTexts(Buffer.from(text), binary, ['a'])
  t.same(read('{"a":"x"}'), { a: 'x' })
  for (const text of ['{"a":1}', '{}', '[]', 'null', '{"a":"x","b":"y"}', '{"__proto__":{"a":"x"}}',
    `{"a":"${'x'.repeat(2048)}"}`]) t.equal(read(text), undefined, text.slice(0, 30))
  t.equal(read('{"a":"x"}', true), undefined)
})
