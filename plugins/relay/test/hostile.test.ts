import { randomBytes } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { systemClock } from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { callNode, answerDevice } from '../channel/secure.js'
import { Initiator } from '../channel/noise.js'
import { agreementOf } from '../channel/suite.js'
import { carrier } from '../device/connection.js'
import { CANARY, connected, knownFrom, lineOf, nodeAt, paired } from './cluster-kit.js'
import { routeAt } from '../relay-address.js'
import { relayFor, until, type Tearing } from './relay-kit.js'
import { paths, routeOf, socketUrl } from '../wire.js'
import type { AddressInfo } from 'node:net'

/** Replaces a message in one direction with the messages that the hostile relay forwards. */
type Trick = (message: Buffer, before: readonly Buffer[]) => Buffer[] | 'close'

const honest: Trick = (message) => [message]

/**
 * A hostile relay between a device and an honest relay; it applies a trick to each binary message. `seen`
 * contains everything that it could read, `sent` the forwarded messages by direction.
 */
async function hostile (t: Tearing, target: string, tricks: { toNode?: Trick, toDevice?: Trick }) {
  const seen: Buffer[] = []
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false })
  t.teardown(() => {
    for (const ws of server.clients) ws.terminate()
    server.close()
  })
  await once(server, 'listening')
  server.on('connection', (near, { url = '' }) => {
    const far = new WebSocket(socketUrl(target, url), { perMessageDeflate: false })
    t.teardown(() => { far.terminate() })
    const pass = (from: WebSocket, to: WebSocket, trick: Trick): void => {
      const before: Buffer[] = []
      from.on('error', () => {})
      from.on('close', () => { to.terminate() })
      from.on('message', (data: Buffer, binary: boolean) => {
        seen.push(data)
        const out = binary ? trick(data, before) : [data]
        if (out === 'close') {
          for (const end of [to, from]) end.close(1000)
          return
        }
        if (binary) before.push(data)
        const send = (): void => { for (const message of out) to.send(message, { binary }) }
        if (to.readyState === to.CONNECTING) to.once('open', send)
        else if (to.readyState === to.OPEN) send()
      })
    }
    pass(near, far, tricks.toNode ?? honest)
    pass(far, near, tricks.toDevice ?? honest)
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen }
}

/** A device that reaches its node through a hostile relay. */
async function victim (t: Tearing, tricks: { toNode?: Trick, toDevice?: Trick } = {}) {
  const relay = await relayFor(t)
  const { rig, done, view } = await nodeAt(t, relay.url)
  const device = await paired(rig)
  await connected(view)
  const bad = await hostile(t, relay.url, tricks)
  const known = await knownFrom(rig, rig.home, device)
  // The device dials the hostile relay, although the node has signed another address.
  const line = lineOf(t, device, { ...known, meetings: known.meetings.map((m) => ({ ...m, url: bad.url })) })
  const act = async (word: string): Promise<string> => {
    const { bearer, channel } = await line.transport()
    const body = JSON.stringify({ word })
    const call = request({
      method: 'POST', path: '/act', createConnection: carrier(await channel.mux.open()),
      headers: { 'host': 'relay', 'content-type': 'application/json', 'content-length': body.length,
        'authorization': `Bearer ${await bearer()}` }
    })
    call.on('error', () => {}).end(body)
    const [response] = await once(call, 'response') as [IncomingMessage]
    return await text(response)
  }
  return { act, bad, done, rig, relay, known, device, line, view }
}

t.test('a relay that reads everything learns no word of it', async (t) => {
  const { act, bad, device, done } = await victim(t)
  t.match(await act('first'), `${CANARY} first`)
  t.same(done, ['first'])
  const all = Buffer.concat(bad.seen).toString('latin1')
  for (const secret of [CANARY, 'first', 'svc_dev_', 'POST', device.deviceId, 'authorization']) {
    t.notMatch(all, secret)
  }
})

const after = (count: number, trick: Trick): Trick => (message, before) =>
  before.length < count ? [message] : trick(message, before)
/** Number of messages after which the handshake is done and the device has its bearer token. */
const SETTLED = 8

t.test('whatever else it does ends the connection, and nothing is done twice or for it', async (t) => {
  const flip = (message: Buffer): Buffer => {
    const altered = Buffer.from(message)
    altered[altered.length >> 1]! ^= 1
    return altered
  }
  const tricks: [title: string, trick: Trick][] = [
    ['sends each message twice', (message) => [message, message]],
    ['repeats an old one', (message, before) => [before.at(-1)!, message]],
    ['swaps two', (message, before) => [before.at(-2)!, before.at(-1)!, message]],
    ['alters a bit', (message) => [flip(message)]],
    ['cuts one short', (message) => [message.subarray(0, message.length - 1)]],
    ['makes one up', (message) => [randomBytes(64), message]],
    ['sends an empty one', (message) => [Buffer.alloc(0), message]]
  ]
  for (const [title, trick] of tricks) {
    const { act, done } = await victim(t, { toNode: after(SETTLED, trick) })
    for (let i = 0; i < 6; i++) await act(`once ${i}`).catch(() => {})
    t.equal(new Set(done).size, done.length, `towards the node: ${title}`)
    const back = await victim(t, { toDevice: after(4, trick) })
    const answers = await Promise.all([1, 2, 3].map((i) => back.act(`back ${i}`).catch(() => '')))
    for (const answer of answers) {
      t.match(answer, /^$|"canary-5a0f31 back \d"/, `towards the device: ${title}`)
    }
    t.equal(new Set(back.done).size, back.done.length)
  }
})

t.test('a message that is left out ends the connection, whichever it is', async (t) => {
  const without = (count: number): Trick => (message, before) => before.length === count ? [] : [message]
  for (const count of [3, 4, 5]) {
    for (const tricks of [{ toNode: without(count + 5) }, { toDevice: without(count) }]) {
      const { act, done } = await victim(t, tricks)
      // A lost message is detected only when the next one arrives, so send several requests at once.
      const asked = [1, 2, 3, 4, 5, 6].map(async (i) => await act(`${i}`).catch(() => ''))
      const answers = await Promise.all(asked)
      for (const answer of answers) t.match(answer, /^$|"canary-5a0f31 \d"/, `without ${count}`)
      t.ok(answers.includes(''), 'it was noticed')
      t.equal(new Set(done).size, done.length)
    }
  }
})

t.test('a stream that the relay ends is cut off, and does not look whole', async (t) => {
  const { line } = await victim(t, { toDevice: after(SETTLED, () => 'close') })
  const { bearer, channel } = await line.transport()
  const authorization = `Bearer ${await bearer()}`
  const call = request({
    path: '/large', createConnection: carrier(await channel.mux.open()), headers: { authorization }
  })
  call.on('error', () => {}).end()
  const [response] = await once(call, 'response') as [IncomingMessage]
  await t.rejects(response.toArray())
  t.notOk(response.complete)
})

t.test('a relay that sends for the node without end gets 32 connections, and the node goes on', async (t) => {
  const flood = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  t.teardown(() => {
    for (const ws of flood.clients) ws.terminate()
    flood.close()
  })
  await once(flood, 'listening')
  let [open, most, came] = [0, 0, 0]
  flood.on('connection', (ws, { url }) => {
    if (url === paths.node) {
      ws.send(JSON.stringify({ challenge: 'c' }))
      ws.once('message', (claim: Buffer) => {
        const { key } = JSON.parse(claim.toString()) as { key: string }
        ws.send(JSON.stringify({ route: routeOf(Buffer.from(key, 'base64url')) }))
        for (let i = 0; i < 5000; i++) ws.send(JSON.stringify({ device: `ticket ${i}` }))
      })
      return
    }
    came++
    most = Math.max(most, ++open)
    ws.on('close', () => { open-- })
    // Half of the fake devices stay silent and half send garbage, until the node closes them.
    if (came % 2 === 0) ws.once('message', () => { ws.send(randomBytes(96)) })
  })
  const { view } = await nodeAt(t, `http://127.0.0.1:${(flood.address() as AddressInfo).port}`)
  await connected(view)
  await until(() => came >= 32)
  t.match(await view(), { connections: 0, streams: 0 })
  t.ok(most <= 32, `${most} at once`)
})

t.test('a recorded connection, played again, does nothing', async (t) => {
  const { act, bad, done, relay, known } = await victim(t)
  await act('recorded')
  const again = new WebSocket(socketUrl(relay.url, paths.device))
  t.teardown(() => { again.terminate() })
  await once(again, 'open')
  const [asked, ...messages] = bad.seen.filter((_, i) => i === 0 || bad.seen[i]!.length > 40)
  again.send(asked!.toString())
  for (const message of messages.slice(0, 1)) again.send(message)
  const [answer] = await once(again, 'message') as [Buffer]
  t.ok(answer.length > 48, 'the node answers a handshake that it has seen before')
  for (const message of messages.slice(1)) again.send(message)
  await once(again, 'close')
  t.same(done, ['recorded'], 'and opens nothing that follows')
  t.equal(known.meetings.length, 1)
})

t.test('first messages that are played again end no connection of the device', async (t) => {
  const { act, bad, done, line, relay, view } = await victim(t)
  await act('before')
  const { channel } = await line.transport()
  let ended = false
  void channel.ended.then(() => { ended = true })
  const [asked, hello] = bad.seen.filter((_, i) => i === 0 || bad.seen[i]!.length > 40)
  for (let i = 0; i < 20; i++) {
    const again = new WebSocket(socketUrl(relay.url, paths.device))
    t.teardown(() => { again.terminate() })
    await once(again, 'open')
    again.send(asked!.toString())
    again.send(hello!)
    const [answer] = await once(again, 'message') as [Buffer]
    t.ok(answer.length > 48, 'the node cannot know yet that it is an old one')
  }
  t.match(await view(), { connections: 1 }, 'they count as nobody\'s')
  await act('after')
  t.same([ended, done], [false, ['before', 'after']])
})

t.test('a relay cannot be the node, and a stranger cannot be a device', async (t) => {
  const impostor = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  t.teardown(() => {
    for (const ws of impostor.clients) ws.terminate()
    impostor.close()
  })
  await once(impostor, 'listening')
  const own = agreementOf(randomBytes(32))
  impostor.on('connection', (ws) => {
    ws.once('message', () => {
      answerDevice(ws, {
        clock: systemClock, random: randomBytes, route: 'r', own, admit: () => 'anyone', accept: () => {}
      }).catch(() => {})
    })
  })
  const url = `http://127.0.0.1:${(impostor.address() as AddressInfo).port}`
  const { rig, relay, known, done, view } = await victim(t)
  const meetings = known.meetings.map((meeting) => ({ ...meeting, url }))
  const lured = lineOf(t, await paired(rig), { ...known, meetings })
  await t.rejects(lured.transport(), /No node answers/)
  const [meeting] = known.meetings
  const stranger = new WebSocket(socketUrl(relay.url, paths.device))
  await once(stranger, 'open')
  stranger.send(JSON.stringify({ route: routeAt(meeting!) }))
  await t.rejects(callNode(stranger, {
    clock: systemClock, random: randomBytes, route: routeAt(meeting!), own: agreementOf(randomBytes(32)),
    nodeKey: Buffer.from(meeting!.agreementKey, 'base64url')
  }), /did not respond to the handshake/)
  t.same([done, (await view())['connections']], [[], 0])
})

/** The part of a WebSocket that the handshake uses. */
class Silent extends EventEmitter {
  readonly readyState = 1
  sent = 0
  send (): void { this.sent++ }
  terminate (): void { this.emit('close') }
}

t.test('whoever cannot go on after a first message is let go', async (t) => {
  const [own, device] = [agreementOf(randomBytes(32)), agreementOf(randomBytes(32))]
  const clock = manualClock()
  const ws = new Silent()
  const answered = answerDevice(ws as unknown as WebSocket, {
    clock, random: randomBytes, route: 'r', own, admit: () => 'anyone', accept: () => {}
  })
  ws.emit('message', Buffer.from(new Initiator({
    prologue: Buffer.from('svc relay 1\nr'), own: device, ephemeral: agreementOf(randomBytes(32)),
    remoteStatic: own.publicKey
  }).start()), true)
  const refused = t.rejects(answered, /has ended/)
  await until(() => ws.sent > 0)
  await clock.advance(10_000)
  await refused
})

t.test('20,000 handshakes that are none do no harm', async (t) => {
  const own = agreementOf(randomBytes(32))
  const device = agreementOf(randomBytes(32))
  const right = new Initiator({
    prologue: Buffer.from('svc relay 1\nr'), own: device, ephemeral: agreementOf(randomBytes(32)),
    remoteStatic: own.publicKey
  }).start()
  const FRAMES = 20_000
  let refused = 0
  const knock = async (frame: Buffer, binary: boolean): Promise<void> => {
    const ws = new Silent()
    const answered = answerDevice(ws as unknown as WebSocket, {
      clock: systemClock, random: randomBytes, route: 'r', own, admit: () => 'anyone', accept: () => {}
    })
    ws.emit('message', frame, binary)
    await answered.then(() => {}, () => { refused++ })
    if (ws.sent > 0) t.fail(`answered ${frame.length} bytes`)
  }
  const before = process.memoryUsage().rss
  for (let i = 0; i < FRAMES; i++) {
    const made = randomBytes([0, 1, 31, 32, 79, 80, 95, 96, 97, 4096][i % 10]!)
    // Half of the inputs are a real message with a byte changed, removed or added.
    const altered = Buffer.concat([right, i % 4 === 1 ? Buffer.from([i & 255]) : Buffer.alloc(0)])
    if (i % 4 === 3) altered[i % right.length]! ^= 1 + i % 255
    await knock(i % 2 === 0 ? made : altered, i % 14 !== 0)
  }
  t.equal(refused, FRAMES)
  const grown = (process.memoryUsage().rss - before) / 2 ** 20
  t.ok(grown < 200, `${Math.round(grown)} MiB more`)
})
