import t from 'tap'
import type { EngineChunk } from '../../../kernel/index.js'
import { encodeFrame, FROM_RUNNER } from '../process/protocol.js'
import { chunkFrame, endFrame, failFrame, readTask, RemoteTaskError } from '../routing/remote/frames.js'
import { hear } from './remote-kit.js'

const chunks: EngineChunk[] = [
  { payload: { model: 'a/b', text: 'é"\u0000' }, media: Buffer.from([0, 255, 1]),
    timing: { timestampSeconds: 0, durationSeconds: 0.5 } },
  { payload: {} },
  { payload: { last: true }, media: Buffer.alloc(70_000, 7) }
]
const wire = (all: EngineChunk[], ...last: Uint8Array[][]): Buffer =>
  Buffer.concat([...all.flatMap((chunk, index) => chunkFrame(index, chunk)), ...last.flat()])

async function * pieces (bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let from = 0; from < bytes.length; from += size) yield bytes.subarray(from, from + size)
}

const plain = (all: EngineChunk[]): object[] => all.map(({ media, ...rest }) =>
  ({ ...rest, ...(media === undefined ? {} : { media: Buffer.from(media).toString('hex') }) }))

t.test('what was written is read, in pieces of any size', async (t) => {
  const bytes = wire(chunks, endFrame())
  for (const size of [bytes.length, 65_536, 1000, 13, 5]) {
    const heard = await hear(readTask(pieces(bytes, size)))
    t.equal(heard.error, null)
    t.same(plain(heard.chunks), plain(chunks))
  }
})

t.test('split once at every byte', async (t) => {
  const small = chunks.slice(0, 2)
  const bytes = wire(small, endFrame())
  for (let cut = 0; cut <= bytes.length; cut++) {
    const heard = await hear(readTask((async function * () {
      yield bytes.subarray(0, cut)
      yield bytes.subarray(cut)
    })()))
    if (heard.error !== null || heard.chunks.length !== 2) t.fail(`cut at ${cut}`)
  }
  t.pass(`${bytes.length + 1} cuts`)
})

t.test('an answer that ends at any byte before its terminal is broken', async (t) => {
  const bytes = wire(chunks.slice(0, 2), endFrame())
  for (let cut = 0; cut < bytes.length; cut++) {
    const { error } = await hear(readTask(pieces(bytes.subarray(0, cut), 64)))
    if (error?.['name'] !== 'ProtocolError') t.fail(`ended after ${cut} bytes: ${String(error)}`)
  }
  t.pass(`${bytes.length} ends`)
})

t.test('the media are not copied when they are written', async (t) => {
  const [, media] = chunkFrame(2, chunks[2]!)
  t.equal(media, chunks[2]!.media)
})

t.test('a failure comes after the chunks before it', async (t) => {
  const failure = { reason: 'overloaded', message: 'full', details: { retryAfterSeconds: 3 } }
  const heard = await hear(readTask(pieces(wire(chunks, failFrame(failure)), 100)))
  t.equal(heard.chunks.length, 3)
  t.ok(heard.error instanceof RemoteTaskError)
  t.match(heard.error, failure)
})

t.test('what follows the terminal changes nothing', async (t) => {
  for (const last of [endFrame(), failFrame({ reason: 'x', message: '', details: {} }),
    [Buffer.from('garbage')]]) {
    t.match(await hear(readTask(pieces(wire([], endFrame(), last), 9))), { chunks: [], error: null })
  }
  const breaks = async function * (): AsyncGenerator<Uint8Array> {
    yield wire([], endFrame())
    throw new Error('reset')
  }
  t.match(await hear(readTask(breaks())), { error: null }, 'nor does a connection that breaks then')
})

t.test('a message of any length fits', async (t) => {
  const failure = { reason: 'x', message: 'm'.repeat(100_000), details: {} }
  t.match((await hear(readTask(pieces(wire([], failFrame(failure)), 999)))).error, { reason: 'x' })
})

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
const frame = (kind: number, header: object): Buffer => Buffer.concat(encodeFrame(kind, 0, header))

const garbage: [string, Buffer][] = [
  ['text', Buffer.from('HTTP/1.1 200 OK\r\n\r\n')],
  ['zeros', Buffer.alloc(64)],
  ['a frame that says it has 4 GiB', Buffer.concat([u32(0xffffffff), Buffer.alloc(100)])],
  ['a frame over 16 MiB', Buffer.concat([u32(16 * 1024 * 1024 + 1), Buffer.alloc(100)])],
  ['a header longer than its frame',
    Buffer.concat([u32(9), Buffer.from([FROM_RUNNER.chunk]), u32(0), u32(99)])],
  ['a header that is not JSON', Buffer.concat([u32(11), Buffer.from([FROM_RUNNER.chunk]), u32(0), u32(2),
    Buffer.from('{]')])],
  ['a header that is a list', Buffer.concat([u32(11), Buffer.from([FROM_RUNNER.chunk]), u32(0), u32(2),
    Buffer.from('[]')])],
  ['an unknown kind', frame(99, {})],
  ['a message of a runner\'s start', frame(FROM_RUNNER.ready, { warmupMs: 1 })],
  ['a message that ends a runner', frame(FROM_RUNNER.fatal, { stage: 'x', message: 'y' })],
  ['a gap', frame(FROM_RUNNER.chunk, { index: 1, payload: {} })],
  ['no payload', frame(FROM_RUNNER.chunk, { index: 0 })],
  ['a payload that is a list', frame(FROM_RUNNER.chunk, { index: 0, payload: [] })],
  ['a timing of texts', frame(FROM_RUNNER.chunk,
    { index: 0, payload: {}, timing: { timestampSeconds: '0', durationSeconds: '1' } })],
  ['a failure without a reason', frame(FROM_RUNNER.fail, { message: 'x', details: {} })],
  ['a reason that is no word', frame(FROM_RUNNER.fail, { reason: 'A b', message: 'x', details: {} })]
]
for (const [name, bytes] of garbage) {
  t.test(`refused: ${name}`, async (t) => {
    const sent = Buffer.concat([bytes, wire([], endFrame())])
    const { chunks: heard, error } = await hear(readTask(pieces(sent, 50)))
    t.same(heard, [])
    t.equal(error?.['name'], 'ProtocolError')
  })
}
