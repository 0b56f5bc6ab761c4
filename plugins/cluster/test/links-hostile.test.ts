import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import t from 'tap'
import { WebSocket } from 'ws'
import { systemClock } from '../../../kernel/api/clock.js'
import { dial } from '../identity/tls.js'
import { encodeFrame } from '../links/frames.js'
import {
  helloFrame, peerOf, rawSocket, tempKey, testNode, unite, until, updown, type Owner, type TestNode
} from './links-kit.js'
import type { LinkLimits } from '../links/limits.js'
import type { NodeKey } from '../../../kernel/boot/node-key.js'

const FRAMES = process.env['SVC_TEST_FULL'] === '1' ? 20_000 : 2000

/** Two linked nodes, and the key of a third member, with which the tests send hostile frames. */
async function scene (
  t: Owner, limits: Partial<LinkLimits> = {}
): Promise<{ a: TestNode, b: TestNode, key: NodeKey }> {
  const key = await tempKey(t)
  const [a, b] = [await testNode(t, { limits }), await testNode(t)]
  unite([a, b, { id: key.installId, key }])
  a.links.start()
  b.links.start()
  await until('linked', () => peerOf(a, b.id) !== undefined && peerOf(b, a.id) !== undefined)
  return { a, b, key }
}

const peerLines = (node: TestNode, id: string): string[] => updown(node).filter((line) => line.includes(id))

t.test('a stranger is hung up on before a frame is read', async (t) => {
  const [{ a }, stranger] = [await scene(t), await tempKey(t)]
  const told = a.told.length
  const [host, port] = a.address.split(':')
  const socket = await dial({
    key: stranger, host: host!, port: Number(port), expect: a.key.fingerprint,
    timeoutMs: 5000, clock: systemClock
  })
  let received = 0
  socket.on('data', (data) => { received += data.byteLength }).on('error', () => {})
  socket.write('GET /cluster HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n' +
    'sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n')
  await once(socket, 'close')
  t.equal(received, 0)
  t.equal(a.told.length, told)
  const other = await rawSocket(t, stranger, a)
  t.not(other.ws.readyState, WebSocket.OPEN)
})

t.test('one that breaks the protocol is told of once, and waits before it is linked again', async (t) => {
  const { a, key } = await scene(t, { violationMinMs: 60_000 })
  const told = (): string[] => a.told.filter((line) => line.startsWith('violation '))
  const raw = await rawSocket(t, key, a)
  raw.ws.send(helloFrame(a, key.installId))
  raw.ws.send(Uint8Array.of(1))
  t.equal(await raw.code, 4400)
  for (let i = 0; i < 10; i++) t.equal(await (await rawSocket(t, key, a)).code, 4412)
  t.same(told(), [`violation ${key.installId} bad_frame`])
  t.same(peerLines(a, key.installId).length, 2, 'up and down once')
  const again = await scene(t, { violationMinMs: 1 })
  for (let i = 0; i < 3; i++) {
    await until('let in', () => peerOf(again.a, again.b.id) !== undefined)
    again.a.links.drop(again.b.id, 'off_protocol')
  }
  await until('linked again', () => peerOf(again.a, again.b.id) !== undefined)
  t.ok(again.a.told.filter((line) => line.startsWith('violation ')).length >= 3)
})

t.test('T-Y04: broken frames close their link only', async (t) => {
  const { a, b, key } = await scene(t)
  const hello = helloFrame(a, key.installId)
  const check = async (
    what: string, greet: boolean, code: number, data: Uint8Array | string
  ): Promise<void> => {
    const raw = await rawSocket(t, key, a)
    if (greet) raw.ws.send(hello)
    raw.ws.send(data)
    t.equal(await raw.code, code, `${what} ${greet ? 'after' : 'before'} the hello`)
    await until('closed', () => peerOf(a, key.installId) === undefined)
  }
  for (const greet of [false, true]) {
    await check('a text frame', greet, 4401, 'hello')
    await check('an empty frame', greet, 4400, Buffer.alloc(0))
    await check('another version', greet, 4406, Buffer.of(9, 0, 126))
    await check('an unknown kind', greet, 4402, Buffer.of(1, 99, 126))
    await check('bytes after the value', greet, 4400, Buffer.of(1, 3, 126, 126))
    await check('a large frame', greet, 4413, Buffer.alloc(1024 * 1024 + 1))
    await check('a ping that is no number', greet, greet ? 4400 : 4407, encodeFrame('ping', 'x'))
  }
  await check('far too large a frame', true, 1009, Buffer.alloc(2 * 1024 * 1024))

  // Random frames on many connections; frames after the first bad one are not read.
  const codes = new Set<number>()
  let sent = 0
  while (sent < FRAMES) {
    const raw = await rawSocket(t, key, a)
    if (sent % 2 === 0) raw.ws.send(hello)
    for (let i = 0; i < 100 && sent < FRAMES; i++, sent++) {
      const frame = randomBytes(randomInt(1, 64 * 1024))
      // Every other frame starts like a valid one: version, kind, and type of the value.
      if (i % 2 === 0) frame.set([1, randomInt(0, 7), 127 - randomInt(0, 12)].slice(0, frame.length))
      raw.ws.send(frame, () => {})
      if (raw.ws.readyState !== WebSocket.OPEN) break
    }
    codes.add(await raw.code)
    raw.ws.terminate()
  }
  for (const code of codes) t.ok(code >= 4400 && code <= 4413, `close code ${code}`)
  await until('the last is gone', () => peerOf(a, key.installId) === undefined)
  t.strictSame([peerLines(a, b.id), peerLines(b, a.id)], [[`up ${b.id}`], [`up ${a.id}`]], 'nothing else')
  t.equal(b.links.send(a.id, 'election', 'alive'), true)
  await until('a frame', () => a.told.includes(`election ${b.id} "alive"`))
})

t.test('a frame sent by one member never passes as another\'s', async (t) => {
  const { a, b, key } = await scene(t)
  const raw = await rawSocket(t, key, a)
  raw.ws.send(helloFrame(a, key.installId))
  raw.ws.send(encodeFrame('telemetry', { installId: b.id }))
  await until('a frame', () => a.told.some((line) => line.startsWith('telemetry')))
  t.equal(a.told.at(-1), `telemetry ${key.installId} {"installId":"${b.id}"}`)
})

t.test('T-Y10: a reader that takes nothing', async (t) => {
  const { a, b, key } = await scene(t)
  const raw = await rawSocket(t, key, a)
  raw.ws.send(helloFrame(a, key.installId))
  await until('up', () => peerOf(a, key.installId) !== undefined)
  raw.ws.pause()
  const block = new Uint8Array(256 * 1024)
  let refused = false
  for (let i = 0; i < 400 && !refused; i++) {
    refused = !a.links.send(key.installId, 'document', block)
    await new Promise(setImmediate)
  }
  t.ok(refused, 'documents are refused first')
  const held = peerOf(a, key.installId)!.buffered
  t.ok(held > 768 * 1024 && held <= 1536 * 1024 + 4096, `${held} bytes wait`)
  t.equal(a.links.send(key.installId, 'channel', 1), false)
  t.equal(a.links.send(key.installId, 'election', 1), true)
  let most = 0
  for (let i = 0; i < 100; i++) {
    const open = a.links.send(key.installId, 'telemetry', block)
    if (!open) break
    most = Math.max(most, peerOf(a, key.installId)!.buffered)
  }
  t.ok(most <= 6 * 1024 * 1024, `at most ${most} bytes waited`)
  t.equal(updown(a).at(-1), `down ${key.installId} slow_reader`)
  t.strictSame([peerLines(a, b.id), peerLines(b, a.id)], [[`up ${b.id}`], [`up ${a.id}`]])
  raw.ws.resume()
  t.match(String(await raw.code), /4429|1006/)
})

t.test('a link on which nothing comes is closed after three pings', async (t) => {
  const { a, b, key } = await scene(t, { pingMs: 50 })
  const raw = await rawSocket(t, key, a)
  let pings = 0
  raw.ws.on('message', (data) => { if ((data as Buffer)[1] === 1) pings++ })
  raw.ws.send(helloFrame(a, key.installId))
  await until('closed', () => updown(a).at(-1) === `down ${key.installId} stalled`)
  t.equal(await raw.code, 4410)
  t.equal(pings, 3)
  t.strictSame(peerLines(a, b.id), [`up ${b.id}`], 'one that answers stays')
})

t.test('votes and heartbeats pass documents and channels that wait, and none of these is lost', async (t) => {
  const { a, b } = await scene(t, { bytesPerSecond: 4 * 1024 * 1024, burstBytes: 64 * 1024 })
  const body = 'x'.repeat(64 * 1024)
  let sent = 0
  while (sent < 100 && b.links.send(a.id, 'channel', body)) sent++
  t.ok(sent < 48, `${sent} channel frames were taken, then the sender is refused`)
  t.equal(b.links.send(a.id, 'document', body), true, 'a document still is not')
  t.equal(b.links.send(a.id, 'election', 'vote'), true)
  const kinds = (): string[] => a.told.map((line) => line.split(' ')[0]!).filter((kind) => kind !== 'up')
  await until('all', () => kinds().length === sent + 2)
  const before = kinds().indexOf('election')
  t.ok(before <= 33, `the vote came after ${before} of ${sent} frames`)
  t.equal(kinds().at(-1), 'document')
  t.strictSame(updown(a), [`up ${b.id}`])
})

t.test('a peer that sends on without credit loses its link', async (t) => {
  const { a, b, key } = await scene(t,
    { windowBytes: 256 * 1024, bytesPerSecond: 1024 * 1024, burstBytes: 64 * 1024 })
  const flood = async (kind: 'channel' | 'credit', body: unknown): Promise<number> => {
    const raw = await rawSocket(t, key, a)
    raw.ws.send(helloFrame(a, key.installId))
    for (let i = 0; i < 30; i++) raw.ws.send(encodeFrame(kind, body), () => {})
    return await raw.code
  }
  t.equal(await flood('channel', 'x'.repeat(64 * 1024)), 4430)
  for (const total of [1, -1, NaN, '0']) t.equal(await flood('credit', total), 4400, `credit of ${total}`)
  t.strictSame(peerLines(a, b.id), [`up ${b.id}`], 'nobody else\'s')
})

t.test('a frame too large is not sent, what listeners throw harms nothing', async (t) => {
  const { a, b } = await scene(t)
  t.equal(a.links.send(b.id, 'document', new Uint8Array(1024 * 1024)), false)
  const bad = await testNode(t, {
    events: {
      up () { throw new Error('up') },
      down () { throw new Error('down') },
      frame () { throw new Error('frame') },
      copied () { throw new Error('copied') },
      violation () { throw new Error('violation') }
    }
  })
  unite([a, bad])
  bad.links.start()
  await until('linked', () => peerOf(bad, a.id) !== undefined && peerOf(a, bad.id) !== undefined)
  a.links.send(bad.id, 'channel', 1)
  await until('arrived', () => peerOf(bad, a.id)!.framesIn >= 2)
  t.not(peerOf(bad, a.id), undefined)
})
