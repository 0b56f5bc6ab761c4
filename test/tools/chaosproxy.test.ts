import t, { type Test } from 'tap'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { until } from '../node/kit.js'
import { chaosProxy, type ChaosProxy, type ProxyOptions } from './chaosproxy.js'

/** One end of a connection, with the bytes that it has received. */
interface End { socket: Socket, got (): Buffer, text (): string, ended (): boolean, closed (): boolean,
  error (): string | undefined }

function watch (socket: Socket): End {
  const parts: Buffer[] = []
  let [ended, closed] = [false, false]
  let error: string | undefined
  socket.on('data', (bytes: Buffer) => { parts.push(bytes) })
  socket.on('end', () => { ended = true })
  socket.on('close', () => { closed = true })
  socket.on('error', (e: NodeJS.ErrnoException) => { error = e.code })
  return { socket, got: () => Buffer.concat(parts), text: () => Buffer.concat(parts).toString('latin1'),
    ended: () => ended, closed: () => closed, error: () => error }
}

/** Starts a target and a proxy in front of it; opens connections through the proxy as pairs of ends. */
async function bench (t: Test, options: Partial<ProxyOptions> = {}): Promise<{
  proxy: ChaosProxy, pair (): Promise<{ client: End, server: End }>, dial (): Promise<End>
}> {
  const arrived: End[] = []
  const target = createServer({ allowHalfOpen: true }, (socket) => { arrived.push(watch(socket)) })
  target.listen(0, '127.0.0.1')
  await once(target, 'listening')
  const { port } = target.address() as AddressInfo
  const proxy = await chaosProxy({ target: { host: '127.0.0.1', port }, ...options })
  const ends: End[] = []
  t.teardown(async () => {
    for (const { socket } of [...ends, ...arrived]) socket.destroy()
    await proxy.close()
    target.close()
  })
  const dial = async (): Promise<End> => {
    const end = watch(connect({ host: proxy.host, port: proxy.port, allowHalfOpen: true }))
    ends.push(end)
    await until('the connection or its refusal', () => !end.socket.connecting)
    return end
  }
  return { proxy, dial, async pair () {
    const before = arrived.length
    const client = await dial()
    return { client, server: await until('the connection', () => arrived[before]) }
  } }
}

/** Waits until an end has received that text. */
const gets = (end: End, text: string): Promise<true> => until(`"${text}"`, () => end.text() === text)

t.test('without a rule, bytes and ends pass in both directions', async (t) => {
  const { proxy, pair } = await bench(t)
  const { client, server } = await pair()
  client.socket.write('to the target')
  server.socket.write('to the client')
  await Promise.all([gets(server, 'to the target'), gets(client, 'to the client')])
  t.strictSame(proxy.seen, { connections: 1, up: 13, down: 13 })
  t.match(proxy.address, /^127\.0\.0\.1:\d+$/)
  client.socket.end('last')
  await until('the end', () => server.ended())
  t.equal(server.text(), 'to the targetlast')
  t.notOk(client.ended(), 'the other half stays open')
  server.socket.end('bye')
  await until('the end of the other half', () => client.ended())
  t.equal(client.text(), 'to the clientbye')
  await until('both connections to close', () => proxy.open === 0)
})

t.test('a large amount arrives completely, and no faster than it is read', async (t) => {
  const { pair } = await bench(t)
  const { client, server } = await pair()
  const sent = Buffer.alloc(4 << 20, 'abcdefg')
  server.socket.pause()
  client.socket.end(sent)
  await until('the sender to wait', () => client.socket.writableLength > 0)
  server.socket.resume()
  await until('all bytes', () => server.ended())
  t.ok(server.got().equals(sent))
})

t.test('latency', async (t) => {
  const { proxy, pair } = await bench(t)
  const { client, server } = await pair()
  proxy.shape({ latencyMs: 120 }, 'up')
  const start = performance.now()
  client.socket.write('late')
  await gets(server, 'late')
  t.ok(performance.now() - start >= 119, 'not before its time')
  proxy.heal()
})

t.test('bandwidth', async (t) => {
  const { proxy, pair } = await bench(t)
  const { client, server } = await pair()
  proxy.shape({ bytesPerSecond: 100_000 }, 'down')
  const start = performance.now()
  server.socket.end(Buffer.alloc(50_000))
  await until('all bytes', () => client.got().byteLength === 50_000)
  t.ok(performance.now() - start >= 450, 'half a second for half of what a second takes')
})

t.test('cut: nothing passes, nothing is refused, all arrives late', async (t) => {
  const { proxy, pair, dial } = await bench(t)
  const { client, server } = await pair()
  proxy.cut()
  client.socket.write('held')
  const later = await dial()
  later.socket.write('also')
  const witness = performance.now() + 150
  await until('some time', () => performance.now() > witness)
  t.match([server.text(), client.error(), client.closed()], ['', undefined, false])
  proxy.heal()
  await gets(server, 'held')
})

t.test('cut in one direction', async (t) => {
  const { proxy, pair } = await bench(t)
  const { client, server } = await pair()
  proxy.cut(undefined, 'down')
  server.socket.write('held')
  client.socket.write('passes')
  await gets(server, 'passes')
  t.equal(client.text(), '')
  proxy.heal()
  await gets(client, 'held')
})

t.test('rules for one name only', async (t) => {
  const names = ['a', 'b']
  const { proxy, pair } = await bench(t, { from: () => names.shift() })
  const [a, b] = [await pair(), await pair()]
  proxy.cut('a')
  a.client.socket.write('held')
  b.client.socket.write('passes')
  await gets(b.server, 'passes')
  t.equal(a.server.text(), '')
  proxy.heal('b')
  t.equal(a.server.text(), '')
  proxy.heal('a')
  await gets(a.server, 'held')
  t.equal(proxy.reset('b'), 1)
  await until('the end of b', () => b.client.error() === 'ECONNRESET')
  t.notOk(a.client.closed())
})

t.test('reset: both ends get RST', async (t) => {
  const { proxy, pair } = await bench(t)
  const { client, server } = await pair()
  t.equal(proxy.reset(), 1)
  await until('the end', () => client.closed() && server.closed())
  t.match([client.error(), server.error()], ['ECONNRESET', 'ECONNRESET'])
  await until('nothing open', () => proxy.open === 0)
})

t.test('half open: one end is gone, the other gets no signal', async (t) => {
  const { proxy, pair } = await bench(t)
  const { client, server } = await pair()
  t.equal(proxy.halfOpen(), 1)
  await until('the end of the target', () => server.closed())
  client.socket.write('into the void')
  await until('the proxy to take it', () => proxy.seen.up === 13)
  t.match([client.closed(), client.ended(), client.error()], [false, false, undefined])
  client.socket.end()
  await until('nothing open', () => proxy.open === 0)
})

t.test('a byte is inverted, bytes are lost', async (t) => {
  const { proxy, pair } = await bench(t)
  const { client, server } = await pair()
  client.socket.write('0123')
  await gets(server, '0123')
  t.equal(proxy.corrupt('up', 5), 1)
  client.socket.write('aaaa')
  await gets(server, '0123aaaa')
  client.socket.write('aaaa')
  await gets(server, `0123aaaaa${String.fromCharCode(0x61 ^ 0xff)}aa`)
  t.equal(proxy.drop('down', 3), 1)
  server.socket.write('xx')
  server.socket.write('xyz')
  await gets(client, 'yz')
})

t.test('refuse, and retarget', async (t) => {
  const { proxy, dial, pair } = await bench(t)
  proxy.refuse(true)
  const refused = await dial()
  await until('RST', () => refused.error() === 'ECONNRESET')
  proxy.refuse(false)
  const other = createServer((socket) => { socket.end('elsewhere') })
  other.listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const { client } = await pair()
  proxy.retarget({ host: '127.0.0.1', port: (other.address() as AddressInfo).port })
  const led = await dial()
  await gets(led, 'elsewhere')
  led.socket.destroy()
  t.equal(client.text(), '', 'an open connection stays where it is')
  await new Promise<void>((resolve) => { other.close(() => { resolve() }) })
  const gone = await dial()
  await until('RST from a closed port', () => gone.error() === 'ECONNRESET')
})
