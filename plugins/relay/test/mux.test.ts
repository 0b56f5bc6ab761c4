import { once } from 'node:events'
import { createServer, request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { DATA_BYTES, readFrame, writeFrame, Mux, STREAMS, type Frame } from '../channel/mux.js'
import { WINDOW_BYTES, type MuxStream } from '../channel/stream.js'

/** Two connected ends in memory. Frames are delivered in a later event-loop turn; `hold` delays them. */
function pair (accept: (stream: MuxStream) => void, clock = manualClock()) {
  const sent: Frame[] = []
  const gate = { hold: false, room: true }
  const waiting: (() => void)[] = []
  const over = (to: () => Mux) => (bytes: Uint8Array): boolean => {
    sent.push(readFrame(bytes))
    waiting.push(() => { to().receive(bytes) })
    setImmediate(flow)
    return gate.room
  }
  const flow = (): void => { while (!gate.hold && waiting.length > 0) waiting.shift()!() }
  const device: Mux = new Mux({ clock, send: over(() => node) })
  const node: Mux = new Mux({ clock, send: over(() => device), accept })
  return { device, node, sent, gate, flow, clock }
}

const settle = async (turns = 30): Promise<void> => {
  for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve))
}

t.test('frames come back as they were written, and nothing else is one', async (t) => {
  const frames: Frame[] = [
    { kind: 'open', stream: 1 }, { kind: 'data', stream: 2 ** 32 - 1, bytes: Buffer.from('x') },
    { kind: 'data', stream: 7, bytes: Buffer.alloc(DATA_BYTES) },
    { kind: 'credit', stream: 3, bytes: 2 ** 32 - 1 }, { kind: 'end', stream: 4 },
    { kind: 'reset', stream: 5 }, { kind: 'alive', stream: 0 }
  ]
  for (const frame of frames) t.same(readFrame(writeFrame(frame)), frame)
  const bad = ['', '01', '0100000001ff', '0200000001', '03000000010000', '07000000010000', '060000000000',
    '0000000001',
    `0200000001${'00'.repeat(DATA_BYTES + 1)}`, '04000000', '030000000100000000ff']
  for (const hex of bad) {
    t.throws(() => readFrame(Buffer.from(hex, 'hex')), { name: 'ProtocolError' }, hex.slice(0, 20))
  }
})

t.test('HTTP runs inside a stream: bodies both ways, an answer while it is made', async (t) => {
  const server = createServer((incoming, outgoing) => {
    outgoing.write('made ')
    void text(incoming).then((body) => { outgoing.end(body) })
  })
  const { device } = pair((stream) => { server.emit('connection', stream) })
  const one = await device.open()
  const call = request({ method: 'POST', createConnection: () => one })
  call.write('a')
  const [response] = await once(call, 'response') as [IncomingMessage]
  response.setEncoding('utf8')
  t.equal((await once(response, 'data'))[0], 'made ')
  call.end('b'.repeat(600_000))
  t.equal((await text(response)).length, 600_001)
  await settle()
  t.equal(device.size, 0)
})

t.test('each chunk that is made goes as one frame, and at once', async (t) => {
  let say = (_text: string): void => {}
  const server = createServer((_, outgoing) => {
    outgoing.flushHeaders()
    say = (text) => { outgoing.write(text) }
  })
  const { device, sent } = pair((stream) => { server.emit('connection', stream) })
  const one = await device.open()
  const call = request({ createConnection: () => one }).end()
  const [response] = await once(call, 'response') as [IncomingMessage]
  response.setEncoding('utf8')
  for (const word of ['one', 'two', 'three']) {
    sent.length = 0
    say(word)
    t.equal((await once(response, 'data'))[0], word)
    t.same(sent.map(({ kind }) => kind), ['data'])
  }
  call.destroy()
  await settle()
})

t.test('a reader that takes nothing stops its own stream at a window, and others go on', async (t) => {
  const taken: MuxStream[] = []
  const { device, node } = pair((stream) => { taken.push(stream) })
  const [slow, quick] = [await device.open(), await device.open()]
  let free = slow.write(Buffer.alloc(4 * WINDOW_BYTES), () => { free = true })
  await settle()
  t.equal(free, false)
  const unread = taken[0]!
  t.ok(unread.readableLength <= 64 * 1024 + DATA_BYTES, 'most of it waits at the writer')
  let got = 0
  taken[1]!.on('data', (bytes: Buffer) => { got += bytes.length })
  quick.end(Buffer.alloc(3 * WINDOW_BYTES))
  await settle(100)
  t.equal(got, 3 * WINDOW_BYTES)
  let late = 0
  unread.on('data', (bytes: Buffer) => { late += bytes.length })
  await settle(100)
  t.same([late, free], [4 * WINDOW_BYTES, true])
  t.equal(node.size, 2)
})

t.test('streams take turns, also where the connection takes little', async (t) => {
  const { device, gate, sent } = pair((stream) => { stream.resume() })
  const streams = await Promise.all([1, 2, 3].map(() => device.open()))
  gate.room = false
  streams.forEach((stream) => { stream.write(Buffer.alloc(4 * DATA_BYTES)) })
  for (let i = 0; i < 6; i++) {
    await settle(2)
    device.drained()
  }
  const data = sent.filter(({ kind }) => kind === 'data').map(({ stream }) => stream)
  t.same(data.slice(0, 7), [1, 1, 2, 3, 1, 2, 3], 'the first was alone with its first frame')
})

t.test('both sides end on their own, and a reset ends both', async (t) => {
  const taken: MuxStream[] = []
  const { device, node } = pair((stream) => { taken.push(stream) })
  const half = await device.open()
  half.end('question')
  await settle()
  t.equal(String(taken[0]!.read()), 'question')
  taken[0]!.resume()
  taken[0]!.end('answer')
  t.equal(await text(half), 'answer')
  await settle()
  t.same([device.size, node.size], [0, 0])
  const given = await device.open()
  await settle()
  const error = once(taken[1]!, 'error')
  taken[1]!.write('unread')
  given.destroy()
  t.match(await error, [{ code: 'ECONNRESET' }])
  await settle()
  t.same([device.size, node.size], [0, 0])
})

t.test('more streams than may be wait for their turn', async (t) => {
  const { device, node } = pair((stream) => { stream.resume() })
  const open = await Promise.all(Array.from({ length: STREAMS }, () => device.open()))
  const next = device.open()
  const given = new AbortController()
  const never = device.open(given.signal)
  given.abort(new Error('too long'))
  await t.rejects(never, { message: 'too long' })
  await settle()
  t.equal(node.size, STREAMS)
  open[9]!.destroy()
  t.equal((await next).id, STREAMS + 1)
  device.end(new Error('over'))
  await t.rejects(device.open(), { message: 'over' })
  t.ok(open[0]!.destroyed)
})

t.test('what breaks the protocol is told apart from what is only late', async (t) => {
  const open = writeFrame({ kind: 'open', stream: 1 })
  const data = (bytes: number): Uint8Array =>
    writeFrame({ kind: 'data', stream: 1, bytes: Buffer.alloc(bytes) })
  const rows: [title: string, frames: Uint8Array[], fine: boolean][] = [
    ['a stream', [open, data(1)], true],
    ['a frame of a stream that is not open', [data(1)], false],
    ['a stream out of turn', [writeFrame({ kind: 'open', stream: 2 })], false],
    ['a stream opened twice', [open, open], false],
    ['stream 0', [open, writeFrame({ kind: 'end', stream: 0 })], false],
    ['a full window', [open, ...Array.from({ length: 8 }, () => data(DATA_BYTES))], true],
    ['more than a window', [open, ...Array.from({ length: 8 }, () => data(DATA_BYTES)), data(1)], false],
    ['bytes after the end', [open, writeFrame({ kind: 'end', stream: 1 }), data(1)], false],
    ['two ends', [open, ...[1, 2].map(() => writeFrame({ kind: 'end', stream: 1 }))], false],
    ['credit for nothing', [open, writeFrame({ kind: 'credit', stream: 1, bytes: 1 })], false],
    ['no credit', [open, writeFrame({ kind: 'credit', stream: 1, bytes: 0 })], false],
    ['a late frame', [open, writeFrame({ kind: 'reset', stream: 1 }), data(1)], true],
    ['too many streams', Array.from({ length: STREAMS + 1 }, (_, i) =>
      writeFrame({ kind: 'open', stream: i + 1 })), false]
  ]
  for (const [title, frames, fine] of rows) {
    const node = new Mux({ clock: manualClock(), send: () => true, accept: () => {} })
    const all = (): void => { for (const frame of frames) node.receive(frame) }
    if (fine) t.doesNotThrow(all, title)
    else t.throws(all, { name: 'ProtocolError' }, title)
  }
  const device = new Mux({ clock: manualClock(), send: () => true })
  t.throws(() => { device.receive(open) }, { name: 'ProtocolError' }, 'the node opens none')
})

t.test('bytes that come one by one cost little memory while nobody reads', async (t) => {
  const taken: MuxStream[] = []
  const node = new Mux({
    clock: manualClock(), send: () => true, accept: (stream) => { taken.push(stream) }
  })
  node.receive(writeFrame({ kind: 'open', stream: 1 }))
  const one = writeFrame({ kind: 'data', stream: 1, bytes: Buffer.from('x') })
  for (let i = 0; i < WINDOW_BYTES; i++) node.receive(one)
  t.equal(taken[0]!.readableLength, 0, 'nobody has asked')
  let parts = 0
  taken[0]!.on('data', () => { parts++ })
  await settle()
  t.ok(parts <= WINDOW_BYTES / 2048, `${parts} parts`)
})

t.test('an idle stream tells it as a socket does', async (t) => {
  const { device, clock } = pair((stream) => { stream.resume() })
  const stream = await device.open()
  let told = 0
  stream.setTimeout(1000).on('timeout', () => { told++ })
  await clock.advance(900)
  stream.write('x')
  await clock.advance(900)
  t.equal(told, 0)
  await clock.advance(200)
  t.equal(told, 1)
  stream.setTimeout(0)
  await clock.advance(5000)
  t.equal(told, 1)
})
