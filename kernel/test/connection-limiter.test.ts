import { EventEmitter, once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { systemClock } from '../api/clock.js'
import { ConnectionLimiter, networkOf } from '../http/connection-limiter.js'
import { HttpListener } from '../http/http-listener.js'
import { createTable } from '../http/server.js'
import { readJoinToken } from '../../plugins/cluster/identity/join-tokens.js'
import { join } from '../../plugins/cluster/identity/join.js'
import { dial } from '../../plugins/cluster/identity/tls.js'
import { definePlugin, type RouteRequest } from '../index.js'
import { InspectionService } from '../api/services.js'
import { startPlugin, type Rig } from '../testing/index.js'
import { peerOf, tempKey, testNode, unite, until } from '../../plugins/cluster/test/links-kit.js'

const table: [string, string][] = [
  ['10.0.0.7', '10.0.0.7'], ['::ffff:10.0.0.7', '::ffff:10.0.0.7'],
  ['fd00::2', 'fd00:0:0:0'], ['::1', '0:0:0:0'], ['fe80::1%eth0', 'fe80:0:0:0'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'], ['2001:db8:1:2::9', '2001:db8:1:2']
]
for (const [address, network] of table) t.equal(networkOf(address), network, address)

const free = (address: string): boolean => address === '127.0.0.1'

t.test('who keeps a place', async (t) => {
  let port = 0
  const arrive = (remoteAddress: string): Socket & { gone: boolean } => {
    const socket = Object.assign(new EventEmitter(), {
      remoteAddress, remotePort: ++port, gone: false, destroy () { socket.gone = true }
    })
    return socket as unknown as Socket & { gone: boolean }
  }
  const limiter = new ConnectionLimiter({ inAll: 6, perNetwork: 3, free })
  const enter = (address: string): ReturnType<typeof arrive> => {
    const socket = arrive(address)
    limiter.accept(socket)
    return socket
  }
  const crowd = Array.from({ length: 5 }, () => enter('10.0.0.9'))
  t.strictSame(crowd.map((s) => s.gone), [true, true, false, false, false], 'the oldest of one address go')
  const proven = enter('10.0.0.8')
  limiter.authenticated(proven)
  t.equal(limiter.held(proven), 0)
  const local = [enter('127.0.0.1'), enter('127.0.0.1'), enter('127.0.0.1')]
  t.strictSame(local.map((s) => s.gone), [false, false, false], 'loopback gets in')
  t.equal(crowd[2]!.gone, true, 'in the place of the oldest that is silent')
  for (const socket of local) limiter.authenticated(socket)
  for (const socket of crowd) socket.emit('close')
  enter('127.0.0.1').emit('close')
  t.equal(proven.gone, false, 'whoever has shown something stays')
})

t.test('an address that is free is held to the places in all alone', (t) => {
  const limiter = new ConnectionLimiter({ inAll: 100, perNetwork: 2, free })
  const enter = (remoteAddress: string, remotePort: number): boolean => {
    let isGone = false
    const socket = Object.assign(new EventEmitter(), {
      remoteAddress, remotePort, destroy () { isGone = true }
    })
    limiter.accept(socket as unknown as Socket)
    limiter.accept(Object.assign(new EventEmitter(), { remoteAddress, remotePort: remotePort + 1 }) as Socket)
    limiter.accept(Object.assign(new EventEmitter(), { remoteAddress, remotePort: remotePort + 2 }) as Socket)
    return isGone
  }
  t.equal(enter('10.0.0.9', 1), true)
  t.equal(enter('127.0.0.1', 1), false)
  t.end()
})

let tooLate = 0
const probe = definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.',
  routes: {
    big: { method: 'GET', url: '/big', summary: 's', authority: 'read' },
    late: { method: 'GET', url: '/late', summary: 's', authority: 'read', stream: true }
  }
}, () => {
  const late = async (request: RouteRequest): Promise<void> => {
    await new Promise((resolve) => { request.signal.addEventListener('abort', resolve) })
    try { request.open({ contentType: 'text/plain' }) } finally { tooLate++ }
  }
  return { routes: { big: () => 'x'.repeat(1024 * 1024), late } }
})

const openOn = (rig: Pick<Rig, 'app'>): Promise<number> => new Promise((resolve, reject) => {
  rig.app.server.getConnections((error, count) => { if (error === null) resolve(count); else reject(error) })
})

async function crowd (
  t: { teardown (fn: () => unknown): unknown }, port: number, count: number
): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () =>
    connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {}))
  t.teardown(() => { for (const socket of sockets) socket.destroy() })
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  return sockets
}

t.test('more silent connections than there are places', async (t) => {
  const rig = await startPlugin(t, probe, { clock: systemClock, limits: { connections: 16 } })
  const url = await rig.listen()
  await crowd(t, Number(new URL(url).port), 40)
  for (let i = 0; i < 20; i++) {
    const answer = await fetch(`${url}/healthz`, { headers: { connection: 'close' } })
    t.equal(answer.status, 200)
  }
  t.ok(await openOn(rig) <= 16)
})

t.test('what is too slow is destroyed, also when the client never closes', async (t) => {
  const rig = await startPlugin(t, probe, { clock: systemClock, limits: { streamStallMs: 300 } })
  const port = Number(new URL(await rig.listen()).port)
  rig.app.server.headersTimeout = 100
  const [late, unread] = await crowd(t, port, 2) as [Socket, Socket]
  late.write('GET / HTTP/1.1\r\n')
  late.pause()
  unread.pause()
  unread.write(`GET /big HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`.repeat(50))
  while (await openOn(rig) > 0) await new Promise((resolve) => { setTimeout(resolve, 20) })
})

t.test('a client that left before its stream opened holds no place', async (t) => {
  const rig = await startPlugin(t, probe, { clock: systemClock, limits: { streamsPerToken: 9 } })
  const { port, host } = new URL(await rig.listen())
  for (let i = 0; i < 3; i++) {
    const socket = connect(Number(port), '127.0.0.1')
    socket.write(`GET /late HTTP/1.1\r\nhost: ${host}\r\n\r\n`)
    await new Promise((resolve) => { setTimeout(resolve, 50) })
    socket.destroy()
  }
  await until('all came too late', () => tooLate === 3)
  t.equal(rig.service(InspectionService).openStreams(), 0)
})

t.test('requests that are reset, or say twice whom they are for or who sends them', async (t) => {
  const rig = await startPlugin(t, probe, { clock: systemClock })
  const { port, host } = new URL(await rig.listen())
  const ask = async (head: string): Promise<number> => await new Promise((resolve) => {
    const socket = connect(Number(port), '127.0.0.1')
    socket.write(`${head}connection: close\r\n\r\n`)
    socket.on('data', (data) => { resolve(Number(String(data).split(' ')[1])) }).on('error', () => {})
  })
  t.equal(await ask(`GET /node_id HTTP/1.1\r\nhost: ${host}\r\n`), 200)
  t.equal(await ask(`GET /node_id HTTP/1.1\r\nhost: ${host}\r\nHOST: evil.example\r\n`), 400)
  for (const [one, other] of [['x', 'y'], ['x', 'x'], ['', 'x']]) {
    const twice = `Authorization: Bearer ${one}\r\nauthorization: Bearer ${other}\r\n`
    t.equal(await ask(`GET /node_id HTTP/1.1\r\nhost: ${host}\r\n${twice}`), 400, twice)
  }
  t.equal(await ask(`GET http://evil.example/node_id HTTP/1.1\r\nhost: ${host}\r\n`), 421)
  t.equal(await ask(`GET http://${host}/node_id HTTP/1.1\r\nhost: ${host}\r\n`), 200)
  const gone = Array.from({ length: 200 }, async () => {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
    await new Promise((resolve) => { socket.once('connect', resolve) })
    socket.write(`GET /node_id HTTP/1.1\r\nhost: ${host}\r\n\r\n`.repeat(20), () => {
      socket.resetAndDestroy()
    })
    await new Promise((resolve) => { socket.once('close', resolve) })
  })
  await Promise.all(gone)
  t.equal(await ask(`GET /node_id HTTP/1.1\r\nhost: ${host}\r\n`), 200)
  t.strictSame(rig.logged.filter(({ level }) => level === 'error'), [], 'a reset is no failure')
})

t.test('strangers are waited for less', async (t) => {
  const limits = {
    connections: 16, connectionsPerAddress: 2, streamsPerToken: 9, headersTimeoutMs: 10_000,
    requestTimeoutMs: 30_000, keepAliveMs: 60_000, handlerTimeoutMs: 60_000, bodyBytes: 1024,
    streamStallMs: 20_000
  }
  const front = new HttpListener(limits)
  const app = createTable({
    front, limits, trustProxy: [], methodsAt: () => [], rewrite: (_method, url) => url,
    vouchedBy: (_member, caller) => caller,
    log: { debug () {}, info () {}, warn () {}, error () {}, fatal () {} },
    served: () => ({
      addresses: new Set(['127.0.0.1']), port: 0, secure: false, allowedHosts: ['svc'], allowedOrigins: []
    }),
    authenticate: ({ authorization }) =>
      ({ caller: { id: authorization ?? 'anonymous', mode: 'direct', authorities: new Set() } })
  })
  const waits: unknown[] = []
  app.get('/', (request) => {
    waits.push(request.raw.socket.timeout)
    return {}
  })
  await app.ready()
  front.swap(app)
  t.teardown(() => front.close())
  const { port } = new URL(await front.listen({ port: 0, host: '127.0.0.1' }))
  const [first] = await crowd(t, Number(port), 1) as [Socket]
  const heard = async (socket: Socket, text: string): Promise<string> => {
    const parts: string[] = []
    socket.on('data', (part) => { parts.push(String(part)) })
    socket.write(text)
    await once(socket, 'end')
    return parts.join('')
  }
  const plain = 'GET / HTTP/1.1\r\nhost: svc\r\n'
  const last = `${plain}authorization: Bearer x\r\nconnection: close\r\n\r\n`
  await heard(first, `${plain}\r\n${last}`)
  t.same(waits, [5_000, 20_000], 'a stranger, and the same connection with a credential')
})

t.test('strangers at the members\' listener keep neither members nor joiners out', async (t) => {
  const a = await testNode(t, {
    limits: { connections: 16, strangers: 4 },
    admit: async (member) => ({ ...a.members.current(), members: [
      ...a.members.current().members, { ...member, joinedAt: new Date(0).toISOString() }
    ] })
  })
  const b = await testNode(t)
  unite([a, b])
  const at = { host: '127.0.0.1', port: Number(a.address.split(':')[1]) }
  await crowd(t, at.port, 40)
  b.links.start()
  a.links.start()
  await until('linked', () => peerOf(a, b.id) !== undefined && peerOf(b, a.id) !== undefined)
  const { clusterId } = a.members.current()
  const { fingerprint } = a.key
  const invitation = { clusterId, seeds: [a.address], fingerprint, ttlSeconds: 60, by: 'operator' }
  const { token } = a.tokens.create(invitation)
  for (let i = 0; i < 6; i++) {
    const socket = await dial({
      ...at, key: await tempKey(t), expect: fingerprint, timeoutMs: 5000, clock: systemClock
    })
    socket.on('error', () => {})
    t.teardown(() => socket.destroy())
  }
  const key = await tempKey(t)
  const self = { installId: key.installId, fingerprint: key.fingerprint, name: 'c', addresses: [] }
  const joined = await join({ key, self, ticket: readJoinToken(token, Date.now()), clock: systemClock })
  t.match(JSON.stringify(joined), key.installId)
})

t.test('twelve that join at once from one address all do', async (t) => {
  const joiners = await Promise.all(Array.from({ length: 12 }, () => tempKey(t)))
  let asked = 0
  let letAllIn = (): void => {}
  const allAsked = new Promise<void>((resolve) => { letAllIn = resolve })
  const a = await testNode(t, {
    admit: async (member) => {
      if (++asked === joiners.length) letAllIn()
      await allAsked
      const { members, ...rest } = a.members.current()
      const joinedAt = new Date(0).toISOString()
      a.members.replace({ ...rest, members: [...members, { ...member, joinedAt }] })
      return a.members.current()
    }
  })
  unite([a])
  const { fingerprint } = a.key
  const invitation = {
    clusterId: a.members.current().clusterId, seeds: [a.address], fingerprint, ttlSeconds: 60, by: 'operator'
  }
  const joined = await Promise.all(joiners.map(async (key) => {
    const self = { installId: key.installId, fingerprint: key.fingerprint, name: 'c', addresses: [] }
    const ticket = readJoinToken(a.tokens.create(invitation).token, Date.now())
    return await join({ key, self, ticket, clock: systemClock }).then(() => 'in', String)
  }))
  t.same(joined, joiners.map(() => 'in'))
  t.equal(asked, joiners.length, 'each of them once')
})
