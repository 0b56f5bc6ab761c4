import { connect, createServer, type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { systemClock } from '../../../kernel/api/clock.js'
import {
  caller, helloFrame, peerOf, rawSocket, tempKey, testNode, unite, until, updown, type TestNode
} from './links-kit.js'

const A = 'aaaaaaaa-0000-4000-8000-000000000001'
const B = 'bbbbbbbb-0000-4000-8000-000000000002'
const C = 'cccccccc-0000-4000-8000-000000000003'

const linked = (node: TestNode, ...ids: string[]): Promise<void> =>
  until(`${node.id} linked with ${ids.join()}`, () => ids.every((id) => peerOf(node, id) !== undefined))

t.test('two that dial each other at once keep one link, told of once', async (t) => {
  const random = (): number => 0
  const [a, b] = [await testNode(t, { id: A, random }), await testNode(t, { id: B, random })]
  unite([a, b])
  for (let round = 0; round < 5; round++) {
    a.links.start()
    b.links.start()
    await linked(a, B)
    await linked(b, A)
    // Wait until both ends use the same link: one sees it as outgoing, the other as incoming.
    await until('one dialler', () => peerOf(a, B)?.outgoing !== peerOf(b, A)?.outgoing)
    const seen = a.told.length
    t.equal(b.links.send(A, 'channel', { round }), true)
    await until('a frame', () => a.told.length > seen)
    t.strictSame(updown(a), [`up ${B}`, ...Array(round).fill([`down ${B} not_member`, `up ${B}`]).flat()])
    t.strictSame(updown(b), [`up ${A}`, ...Array(round).fill([`down ${A} not_member`, `up ${A}`]).flat()])
    a.links.drop(B)
    await until('down at both', () => [a, b].every((node) => updown(node).length >= 2 * round + 2))
    await linked(a, B)
    await linked(b, A)
    const { address } = b
    t.match(a.links.dials(), [{ address, installId: B, state: 'connected', reason: null }])
  }
})

t.test('the listener moves; links stay', async (t) => {
  const [a, b] = [await testNode(t, { id: A, host: '127.0.0.2' }), await testNode(t, { id: B })]
  const old = a.address
  unite([a, b])
  b.links.start()
  await linked(b, A)
  const port = Number(old.split(':')[1])
  await t.rejects(a.links.listen({ host: '203.0.113.7', port }), /EADDRNOTAVAIL/)
  const answered = async (host: string): Promise<boolean> => await new Promise((resolve) => {
    const socket = connect(port, host, () => { resolve(true) })
    socket.on('error', () => { resolve(false) })
    socket.on('connect', () => { socket.destroy() })
  })
  t.equal(await answered('127.0.0.2'), true, 'a move that fails leaves it where it was')
  t.equal(await answered('127.0.0.3'), false)
  t.strictSame(await a.links.listen({ host: '0.0.0.0', port }), { host: '0.0.0.0', port })
  t.equal(await answered('127.0.0.3'), true)
  t.equal(b.links.send(A, 'channel', 1), true)
  await until('a frame over the link of before', () => a.told.some((line) => line.startsWith('channel')))
  t.strictSame(updown(b), [`up ${A}`], 'no link went down')
  b.links.drop(A)
  await until('a new link', () => updown(b).length === 3)
})

t.test('three nodes, one closes', async (t) => {
  const nodes = await Promise.all([A, B, C].map((id) => testNode(t, { id })))
  const [a, b, c] = nodes as [TestNode, TestNode, TestNode]
  unite(nodes)
  for (const { links } of nodes) links.start()
  await linked(a, B, C)
  await linked(b, A, C)
  await linked(c, A, B)
  t.equal(a.links.broadcast('election', { bytes: Uint8Array.of(1, 2) }), 2)
  const heard = ({ told }: TestNode): boolean => told.some((line) => line.startsWith('election'))
  await until('the broadcast', () => [b, c].every(heard))
  await until('a round trip', () => (peerOf(a, B)?.rttMs ?? null) !== null)
  t.match(peerOf(a, B), { nodeId: b.hello.nodeId, name: b.hello.name, installId: B })
  t.equal(a.links.peers().length, 2)
  await c.links.close()
  await until('down', () => updown(a).length === 3 && updown(b).length === 3)
  t.equal(updown(a)[2], `down ${C} stopping`)
  t.equal(a.links.send(C, 'election', null), false)
  t.equal(peerOf(a, C), undefined)
})

t.test('IPv6 loopback, and a hint without a member\'s address', async (t) => {
  const a = await testNode(t, { id: A, host: '::1' }).catch((error: NodeJS.ErrnoException) => error)
  if (a instanceof Error) {
    t.match(a, { code: /EADDRNOTAVAIL|EAFNOSUPPORT/ })
    t.comment('no IPv6 here')
    return
  }
  const b = await testNode(t, { id: B, host: null })
  unite([{ ...a, addresses: [] }, b])
  b.links.start()
  b.links.hint('not an address')
  b.links.hint(a.address)
  await linked(b, A)
  t.match(a.address, /^\[::1\]:\d+$/)
  t.match(b.links.dials(), [
    { address: a.address, installId: A, state: 'connected', attempts: 0, nextInMs: null }
  ])
})

t.test('failed dials show why', async (t) => {
  const mute = createServer((socket) => { t.teardown(() => socket.destroy()) })
  const dead = createServer()
  const portOf = async (server: typeof mute): Promise<number> => {
    await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
    return (server.address() as AddressInfo).port
  }
  t.teardown(() => { mute.close() })
  const silent = `127.0.0.1:${await portOf(mute)}`
  const refused = `127.0.0.1:${await portOf(dead)}`
  await new Promise((resolve) => { dead.close(resolve) })
  const [b, stranger] = [await testNode(t, { id: B }), await testNode(t)]
  const limits = { dialMs: 500, backoffMinMs: 10, backoffMaxMs: 20 }
  const a = await testNode(t, { id: A, limits })
  unite([a, { id: b.id, key: b.key, addresses: [refused, silent, stranger.address] }])
  a.links.hint(a.address)
  a.links.hint(b.address)
  a.links.hint('no-such-host.invalid:1')
  a.links.start()
  const want = {
    [refused]: 'refused',
    [silent]: 'timeout',
    [stranger.address]: 'wrong_key',
    [a.address]: 'self',
    // b does not know a, so it closes the connection after the handshake.
    [b.address]: 'closed',
    'no-such-host.invalid:1': 'name_not_found'
  }
  const reasons = (): Record<string, string | null> =>
    Object.fromEntries(a.links.dials().map(({ address, reason }) => [address, reason]))
  // On a busy machine a handshake may time out at first, so wait until a retry shows the expected reason.
  await until('reasons', () => Object.entries(want).every(([at, reason]) => reasons()[at] === reason))
  t.strictSame(reasons(), want)
  const attempts = (): number => a.links.dials().find(({ address }) => address === refused)!.attempts
  await until('again', () => attempts() > 2)
  t.strictSame(a.told, [])
})

t.test('the hello', async (t) => {
  const key = await tempKey(t)
  const a = await testNode(t, { id: A, limits: { helloMs: 300 } })
  const b = await testNode(t, { id: B })
  unite([a, b, { id: key.installId, key }])
  const check = async (what: string, frames: Uint8Array[], code: number): Promise<void> => {
    const raw = await rawSocket(t, key, a)
    for (const frame of frames) raw.ws.send(frame)
    t.equal(await raw.code, code, what)
    await until('no link', () => peerOf(a, key.installId) === undefined)
  }
  await check('another install id than the key\'s', [helloFrame(a, B)], 4405)
  await check('another cluster', [helloFrame(a, key.installId, { clusterId: 'other' })], 4404)
  const wrong = { name: 7 as unknown as string }
  await check('a field of the wrong type', [helloFrame(a, key.installId, wrong)], 4407)
  await check('none', [], 4408)
  t.strictSame(updown(a), [])
  const own = helloFrame(a, key.installId)
  await check('twice', [own, own], 4407)
  t.strictSame(updown(a), [`up ${key.installId}`, `down ${key.installId} bad_hello`])
})

/** Reconnects as a restarted member until `wanted` accepts the outcome: a close reason, or `in` if linked. */
async function secondStart (
  t: Test, key: TestNode['key'], node: TestNode, wanted: (outcome: string) => boolean
): Promise<string> {
  for (;;) {
    const { ws } = await rawSocket(t, key, node)
    const closed = new Promise<string>((resolve) => {
      ws.on('close', (_, text) => { resolve(text.toString()) })
    })
    const taken = until('an outcome', () =>
      ws.readyState === ws.CLOSED || peerOf(node, key.installId)?.nodeId === 'next').then(() => 'in')
    ws.send(helloFrame(node, key.installId, { nodeId: 'next', address: '192.0.2.9:7' }, 2))
    const outcome = await Promise.race([closed, taken])
    if (wanted(outcome)) return outcome
  }
}

t.test('a member that starts anew replaces its old link, which is told', async (t) => {
  const key = await tempKey(t)
  const a = await testNode(t, { id: A })
  unite([a, { id: key.installId, key }])
  const first = await rawSocket(t, key, a)
  first.ws.send(helloFrame(a, key.installId))
  await linked(a, key.installId)
  // The member's old connection does not answer pings, so its restarted process may replace it.
  const next = await secondStart(t, key, a, (word) => word !== 'too_soon')
  t.equal(next, 'in')
  t.equal(await first.code, 4409)
  t.strictSame(a.told, [`up ${key.installId}`, `down ${key.installId} restarted`, `up ${key.installId}`])
  t.equal(peerOf(a, key.installId)?.nodeId, 'next')
})

t.test('one link takes over from another without a word', async (t) => {
  const key = await tempKey(t)
  const a = await testNode(t, { id: A })
  unite([a, { id: key.installId, key }])
  const up = [`up ${key.installId}`]
  const first = await rawSocket(t, key, a)
  first.ws.send(helloFrame(a, key.installId))
  await linked(a, key.installId)

  // The member lost its first link, but this node has not detected that yet.
  const second = await rawSocket(t, key, a)
  second.ws.send(helloFrame(a, key.installId, {}, 2))
  t.equal(await first.code, 4409)

  // The member closes its second link as a duplicate before this node has received the third link's hello.
  const third = await rawSocket(t, key, a)
  second.ws.close(4409)
  await until('no current link', () => peerOf(a, key.installId) === undefined)
  t.equal(a.links.send(key.installId, 'election', 1), true, 'what is sent goes over the one that is left')
  t.strictSame(a.told, up)
  third.ws.send(helloFrame(a, key.installId, {}, 3))
  await linked(a, key.installId)

  const fourth = await rawSocket(t, key, a)
  third.ws.close(4409)
  await until('no current link', () => peerOf(a, key.installId) === undefined)
  t.strictSame(a.told, up)
  fourth.ws.terminate()
  await until('down', () => a.told.length > 1)
  t.strictSame(a.told, [...up, `down ${key.installId} lost`])
})

t.test('a removed member is dropped at once', async (t) => {
  const [a, b] = [await testNode(t, { id: A }), await testNode(t, { id: B })]
  const { members, ...rest } = unite([a, b])
  a.links.start()
  b.links.start()
  await linked(a, B)
  await linked(b, A)
  const at = new Date(0).toISOString()
  a.members.replace({
    ...rest,
    members: members.filter(({ installId }) => installId !== B),
    removed: [{ installId: B, fingerprint: b.key.fingerprint, at }]
  })
  t.equal(updown(a).at(-1), `down ${B} not_member`)
  t.equal(peerOf(a, B), undefined)
  await until('told', () => updown(b).at(-1) === `down ${A} not_member`)
  await until('it is told why', () => b.links.dials().some(({ reason }) => reason === 'removed'))
  t.strictSame(a.links.dials(), [])
  t.equal(updown(a).length, 2)
})

t.test('a second process with the key of a linked node stays out', async (t) => {
  const clock = { ...systemClock, aheadMs: 0, mono: () => performance.now() + clock.aheadMs }
  const [a, b] = [await testNode(t, { id: A, clock }), await testNode(t, { id: B })]
  unite([a, b])
  a.links.start()
  b.links.start()
  await linked(a, B)
  await linked(b, A)
  t.equal(await secondStart(t, b.key, a, () => true), 'too_soon', 'the first one is asked')
  t.match(await secondStart(t, b.key, a, (outcome) => outcome !== 'too_soon'), /^copied 127\.0\.0\.1(:\d+)?$/)
  t.match(a.links.copies.list(),
    [/^node .* is linked at 127\.0\.0\.1(:\d+)?; another process .* is at 127\.0\.0\.1:7\.$/])
  t.strictSame([a.told, b.told], [[`up ${B}`], [`up ${A}`]], 'nothing is told of it')
  clock.aheadMs = 61_000
  t.strictSame(a.links.copies.list(), [])
})

t.test('close leaves nothing open, twice as well', async (t) => {
  const sockets = (): number =>
    process.getActiveResourcesInfo().filter((kind) => /TCP|TLS/.test(kind)).length
  await until('others are gone', () => sockets() === 0)
  const [a, b] = [await testNode(t, { id: A }), await testNode(t, { id: B })]
  unite([a, { ...b, addresses: [b.address, '127.0.0.1:1'] }])
  a.links.start()
  b.links.start()
  await linked(a, B)
  const { body } = await a.links.request(B, { method: 'GET', path: '/', caller })
  body.resume()
  t.ok(sockets() > 0)
  await Promise.all([a.links.close(), b.links.close()])
  await a.links.close()
  await until('no sockets', () => sockets() === 0)
  t.match(updown(a).at(-1), /^down/)
})
