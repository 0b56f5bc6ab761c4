import t from 'tap'
import { sseParts } from '../cli/sse.js'
import { visible } from '../cli/api.js'
import type { SsePart } from '../cli/sse.js'

async function read (parts: Uint8Array[]): Promise<SsePart[]> {
  const seen: SsePart[] = []
  for await (const part of sseParts((async function * () { yield * parts })())) seen.push(part)
  return seen
}

t.test('a stream is read alike wherever it is cut', async (t) => {
  const text = ': keep-alive\n\nevent: message\r\ndata: {"a":"ü€😀"}\r\n\r\n:x\rdata:one\r\ndata:  two\r\r' +
    'data\n\nid: 7\nretry: 1\n\ndata: last\u2028line\n\ndata: unfinished'
  const expected: SsePart[] = [
    { kind: 'comment', text: 'keep-alive' },
    { kind: 'event', data: '{"a":"ü€😀"}' },
    { kind: 'comment', text: 'x' },
    { kind: 'event', data: 'one\n two' },
    { kind: 'event', data: '' },
    { kind: 'event', data: 'last\u2028line' }
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

t.test('what a terminal is shown', async (t) => {
  t.equal(visible('a\n\tb\x1b[31m\x07\r\x00\x7f\x9b2J ü😀'), 'a\n\tb[31m2J ü😀')
})
