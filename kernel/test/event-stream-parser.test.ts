import t from 'tap'
import { serverEvents, type ServerEvent } from '../http/event-stream-parser.js'

async function read (parts: readonly Uint8Array[], longest?: number): Promise<ServerEvent[]> {
  const seen: ServerEvent[] = []
  for await (const part of serverEvents((async function * () { yield * parts })(), longest)) seen.push(part)
  return seen
}

const event = (data: string, more: { type?: string, id?: string } = {}): ServerEvent =>
  ({ kind: 'event', type: 'message', data, id: null, ...more })
const comment = (text: string): ServerEvent => ({ kind: 'comment', text })

t.test('a stream is read alike wherever it is cut', async (t) => {
  const text = ': keep-alive\n\nevent: message\r\ndata: {"a":"ü€😀"}\r\n\r\n:x\rdata:one\r\ndata:  two\r\r' +
    'data\n\nid: 7\nretry: 1\n\ndata: last\u2028line\n\ndata: unfinished'
  const expected = [
    comment('keep-alive'), event('{"a":"ü€😀"}'), comment('x'), event('one\n two'), event(''),
    event('last\u2028line')
  ]
  const bytes = Buffer.from(text)
  t.strictSame(await read([bytes]), expected, 'in one piece')
  t.strictSame(await read([...bytes].map((byte) => Uint8Array.of(byte))), expected, 'byte by byte')
  for (let at = 0; at <= bytes.length; at++) {
    const seen = await read([bytes.subarray(0, at), bytes.subarray(at)])
    if (JSON.stringify(seen) !== JSON.stringify(expected)) t.strictSame(seen, expected, `cut at ${at}`)
  }
  t.strictSame(await read([]), [])
})

t.test('types and ids, in pieces of any size', async (t) => {
  const bytes = Buffer.from(': hi\n\nid: 1\ndata: {"a":"é"}\n\n' +
    'event: gap\ndata: x\ndata: y\n\nid: 2\n\ndata: cut')
  for (const size of [1, 2, 7, 1000]) {
    const parts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      bytes.subarray(i * size, (i + 1) * size))
    t.strictSame(await read(parts),
      [comment('hi'), event('{"a":"é"}', { id: '1' }), event('x\ny', { type: 'gap' })])
  }
})

t.test('a field that stands for data', async (t) => {
  const bytes = Buffer.from('error: {"e":1}\r\n\r\ndata: y\n\ndata: [DONE]\n\n')
  for (let size = 1; size <= bytes.length; size++) {
    const parts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      bytes.subarray(i * size, (i + 1) * size))
    const seen: ServerEvent[] = []
    const read = serverEvents((async function * () { yield * parts })(), Infinity, 'error')
    for await (const part of read) seen.push(part)
    t.strictSame(seen, [event('{"e":1}', { type: 'error' }), event('y'), event('[DONE]')])
  }
})

t.test('one that is too long to be held is refused, in one line or in many', async (t) => {
  async function * endless (line: string): AsyncGenerator<Uint8Array> { for (;;) yield Buffer.from(line) }
  await t.rejects(serverEvents(endless('x'.repeat(64 * 1024)), 1024 ** 2).next(), /more than 1048576/)
  await t.rejects(serverEvents(endless('data: x\n'), 100).next(), /an event of more than 100/)
  t.strictSame(await read([Buffer.from('data: 0123456789\n\n'.repeat(20))], 20),
    Array.from({ length: 20 }, () => event('0123456789')), 'short ones after each other are not')
})
