import t from 'tap'
import { encodeFrame, FrameParser, type Frame } from '../process/protocol.js'

const MAX = 1024

/** Feeds bytes in pieces of the given size and returns the frames or the error. */
function parse (bytes: Uint8Array, pieceBytes: number, maxBytes = MAX): Frame[] | string {
  const parser = new FrameParser(maxBytes)
  const frames: Frame[] = []
  try {
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      parser.push(bytes.subarray(at, at + pieceBytes))
      for (let frame = parser.next(); frame !== undefined; frame = parser.next()) frames.push(frame)
    }
  } catch (error) {
    return (error as Error).message
  }
  return frames
}

const wire = (...args: Parameters<typeof encodeFrame>): Buffer => Buffer.concat(encodeFrame(...args))

t.test('frames come out as they went in, whatever the pieces', (t) => {
  const frames = [
    { kind: 1, task: 0, header: {}, media: new Uint8Array(0) },
    { kind: 22, task: 2 ** 32 - 1, header: { text: 'grüße 🎧', n: [1] }, media: new Uint8Array([0, 255]) },
    { kind: 255, task: 7, header: { a: null }, media: new Uint8Array(500).fill(3) }
  ]
  const pieces = frames.map((f) => wire(f.kind, f.task, f.header, f.media))
  const bytes = Buffer.concat(pieces)
  const expected = frames.map((frame, i) => ({ ...frame, bytes: pieces[i]?.length }))
  for (const pieceBytes of [1, 2, 3, 5, 13, 64, bytes.length]) {
    t.strictSame(parse(bytes, pieceBytes), expected, `pieces of ${pieceBytes}`)
  }
  t.end()
})

t.test('what is malformed is refused', (t) => {
  const json = (text: string): Buffer => {
    const bytes = wire(1, 1, {})
    const head = Buffer.from(bytes.subarray(0, 13))
    head.writeUInt32BE(9 + text.length, 0)
    head.writeUInt32BE(text.length, 9)
    return Buffer.concat([head, Buffer.from(text)])
  }
  const lying = wire(1, 1, {})
  lying.writeUInt32BE(1_000, 9)
  const check = (name: string, bytes: Buffer, expected: RegExp): void => {
    t.match(parse(bytes, bytes.length), expected, name)
    t.match(parse(bytes, 1), expected, `${name}, byte by byte`)
  }
  check('longer than allowed', wire(1, 1, { text: 'x'.repeat(MAX) }), /of 1\d+ bytes; allowed are 9 to 1024/)
  check('shorter than its head', Buffer.from([0, 0, 0, 8, 1, 0, 0, 0, 1, 0, 0, 0]), /frame of 8 bytes/)
  check('text', Buffer.from('GET / HTTP/1.1\r\n'), /frame of 1195725856 bytes/)
  check('no JSON', json('{{'), /not JSON/)
  check('a list', json('[]'), /not a JSON object/)
  check('null', json('null'), /not a JSON object/)
  check('JSON longer than the frame', lying, /1000 bytes of JSON/)
  t.end()
})

t.test('an unfinished frame is kept and counted', (t) => {
  const parser = new FrameParser(MAX)
  const bytes = wire(1, 1, { a: 1 })
  parser.push(bytes.subarray(0, 10))
  t.equal(parser.next(), undefined)
  t.equal(parser.pending, 10)
  parser.push(bytes.subarray(10))
  t.strictSame(parser.next()?.header, { a: 1 })
  t.equal(parser.pending, 0)
  t.end()
})

t.test('a large frame in small pieces is joined once', (t) => {
  const bytes = wire(1, 1, {}, new Uint8Array(8 * 1024 * 1024))
  let joined = 0
  const concat = Buffer.concat
  t.teardown(() => { Buffer.concat = concat })
  Buffer.concat = (list, ...rest) => {
    const whole = concat(list, ...rest)
    joined += whole.length
    return whole
  }
  const frames = parse(bytes, 16 * 1024, 2 ** 30)
  t.equal(frames.length, 1)
  t.ok(joined <= bytes.length + 16 * 1024, `${joined} bytes joined for a frame of ${bytes.length}`)
  t.end()
})
