import t from 'tap'
import { encodeEvent, encodeFrame, type Frame as NodeFrame } from '../../capabilities/frames/frames.js'
import { FrameParser, isTerminal } from '../../capabilities/frames/parser.js'
import { endingOf, frameOfEvent, framesIn, mediaOf } from '../page/discovery/frames.js'
import { noAnswer, originOf } from '../page/discovery/origins.js'
import { fits, isOpen, problemsOf } from '../page/discovery/schema.js'

const media = (size: number): NodeFrame['header']['media'] => ({
  media_type: 'audio/mpeg', codec: 'mp3', sample_rate: 1, channels: 1, size, timestamp_seconds: 0,
  duration_seconds: 1
})
const frame = (kind: 'chunk' | 'completed', bytes: number[] | null): NodeFrame => ({
  header: {
    call_id: 'c', sequence: 1, kind, payload: { text: 'ä' }, error: null,
    media: bytes === null ? null : media(bytes.length)
  },
  media: bytes === null ? null : Uint8Array.from(bytes)
})
/** A frame with its bytes as plain numbers, so that Buffer and Uint8Array compare equal. */
const plain = ({ header, media }: { header: unknown, media: Uint8Array | null }): unknown[] =>
  [header, media === null ? null : [...media]]

const FRAMES = [frame('chunk', [1, 2, 3]), frame('chunk', null), frame('chunk', []), frame('completed', [4])]

const readAll = (bytes: Uint8Array): unknown[] => [...framesIn(new FrameParser(), bytes)]

t.test('the frames of a node are read, however they are cut', (t) => {
  const all = Buffer.concat(FRAMES.map((one) => encodeFrame(one)))
  for (const step of [1, 3, 7, 1000, all.byteLength]) {
    const parser = new FrameParser()
    const read = []
    for (let at = 0; at < all.byteLength; at += step) {
      read.push(...framesIn(parser, all.subarray(at, at + step)))
    }
    t.same(read.map(plain), FRAMES.map(plain), `${step} bytes at once`)
    t.same(read.map(({ header }) => isTerminal(header.kind)), [false, false, false, true])
  }
  t.throws(() => readAll(Buffer.from('<html>none</html>')), /a frame header of \d+ bytes/)
  const less = encodeFrame({ header: { kind: 'chunk', media: { size: -1 } }, media: null })
  t.throws(() => readAll(less), /media.size must be/)
  t.throws(() => readAll(encodeFrame({ header: {}, media: null })), /no kind/)
  t.end()
})

t.test('frames that come as events are the same', (t) => {
  for (const one of FRAMES) {
    const data = encodeEvent(one).replace(/^data: /, '').trim()
    const read = frameOfEvent(data)
    t.same(plain(read), plain(one))
  }
  t.end()
})

t.test('media of one type is put together', (t) => {
  const [piece, ...others] = mediaOf(FRAMES)
  t.match(piece, { type: 'audio/mpeg', size: 4 })
  t.same(Buffer.concat(piece!.bytes), Buffer.from([1, 2, 3, 4]))
  t.same(others, [])
  t.same(['audio/mpeg', 'text/plain; charset=utf-8', 'x/y'].map(endingOf), ['mp3', 'txt', 'bin'])
  t.end()
})

t.test('of what is typed only the origin is used', (t) => {
  const good = [
    ['attic:52415', 'http://attic:52415'], [' http://10.0.0.7:1/v1/x?token=y#z ', 'http://10.0.0.7:1'],
    ['HTTPS://Attic.example', 'https://attic.example'], ['[::1]:80', 'http://[::1]']
  ] as const
  for (const [typed, origin] of good) t.same(originOf(typed), { origin }, typed)
  const bad = ['', ' ', 'ftp://x', 'file:///etc', 'http://a:b@c', 'http://', 'javascript://x', 'a b']
  for (const typed of bad) {
    t.match(originOf(typed), { problem: /\w/ }, typed)
  }
  t.match(noAnswer('http://b:1', 'http://a:1').remedy, '["http://a:1"]')
  t.equal(noAnswer('http://b:1', 'https://a:1').remedy, null)
  t.end()
})

const SCHEMA = {
  $defs: { word: { type: 'string', minLength: 2 } },
  type: 'object', additionalProperties: false, required: ['text'],
  properties: {
    seed: { type: ['integer', 'null'], minimum: 0 }, text: { $ref: '#/$defs/word' },
    voice: { type: ['string', 'integer'] }, content: { type: ['string', 'array', 'null'] }, more: true,
    open: { type: 'object' }, numbers: { type: 'object', additionalProperties: { type: 'number' } },
    list: {
      type: 'array', items: { type: 'object', required: ['role'], properties: { role: { enum: ['a', 'b'] } } }
    },
    pair: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }] }
  }
}

t.test('a field without a shape is typed as JSON', (t) => {
  const open = Object.entries(SCHEMA.properties).filter(([, schema]) => isOpen(schema)).map(([name]) => name)
  t.same(open, ['voice', 'content', 'more', 'open', 'pair'])
  t.same([{}, { type: 'array', items: true }, { const: 1 }, { type: 'string' }].map(isOpen),
    [true, true, false, false])
  t.end()
})

t.test('a value is checked against the schema, and told where it is wrong', (t) => {
  const where = (value: unknown, schema: unknown = SCHEMA): string[] =>
    problemsOf(schema, value).map(({ path }) => path.join('.'))
  t.same(where({ text: 'ok', seed: null, list: [{ role: 'a' }] }), [])
  t.same(where({ text: 'ok', seed: undefined }), [], 'what is undefined is not sent')
  t.same(where({}), [''])
  t.match(problemsOf(SCHEMA, {}), [{ message: /text/ }])
  t.same(where({ text: 'x' }), ['text'])
  t.same(where({ text: 'ok', seed: -1 }), ['seed'])
  t.same(where({ text: 'ok', list: [{ role: 'a' }, { role: 'c' }] }), ['list.1.role'])
  t.same(where({ text: 'ok', other: 1 }), ['other'])
  t.same(where(1, { anyOf: [{ type: 'string' }, { type: 'null' }] }), [''])
  t.same(where(undefined), [''])
  t.match(problemsOf({ $ref: '#/nowhere' }, 1), [{ message: /cannot be checked/ }])
  t.ok(fits({ $ref: '#/$defs/word' }, 'ok', SCHEMA))
  t.notOk(fits({ $ref: '#/$defs/word' }, 'x', SCHEMA))
  t.end()
})
