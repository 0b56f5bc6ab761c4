import t from 'tap'
import { chooseType } from '../framing.js'
import { decodeFrame, decodeFrames, encodeEvent, encodeFrame, FrameError } from '../frames/frames.js'
import type { Frame, FrameKind } from '../frames/frames.js'

const frame = (sequence: number, kind: FrameKind, payload: unknown = null,
  bytes: Uint8Array | null = null): Frame => ({
  header: {
    call_id: 'c',
    sequence,
    kind,
    payload,
    media: bytes === null
      ? null
      : { media_type: 'audio/mpeg', codec: 'mp3', sample_rate: 22050, channels: 1, size: bytes.byteLength,
          timestamp_seconds: 0.5, duration_seconds: 1.25 },
    error: null
  },
  media: bytes
})

const stream = [
  frame(0, 'started', { command_id: 'x' }),
  frame(1, 'chunk', { text: 'naïve \u{1F600}' }, Uint8Array.from({ length: 1000 }, (_, i) => i % 251)),
  frame(2, 'chunk', {}, new Uint8Array(0)),
  frame(3, 'completed')
]

async function * cut (bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += size) yield bytes.subarray(at, at + size)
}

const read = async (source: AsyncIterable<Uint8Array>): Promise<Frame[]> => {
  const frames: Frame[] = []
  for await (const f of decodeFrames(source)) frames.push(f)
  return frames
}

const plain = (f: Frame): unknown => ({ header: f.header, media: f.media === null ? null : [...f.media] })

t.test('frames survive any cut of their bytes', async (t) => {
  const bytes = Buffer.concat(stream.map(encodeFrame))
  for (const size of [1, 2, 3, 5, 7, 64, 1000, bytes.byteLength]) {
    t.same((await read(cut(bytes, size))).map(plain), stream.map(plain), `${size} bytes at a time`)
  }
  t.same((await read(cut(Buffer.concat([bytes, bytes]), 64))).length, 4, 'nothing is read past the terminal')
})

t.test('the layout is length, header, media', async (t) => {
  const bytes = Buffer.from(encodeFrame(stream[1]!))
  const length = bytes.readUInt32BE(0)
  const header = JSON.parse(bytes.subarray(4, 4 + length).toString()) as Frame['header']
  t.same(Object.keys(header), ['call_id', 'sequence', 'kind', 'payload', 'media', 'error'])
  t.equal(bytes.byteLength, 4 + length + 1000)
  t.equal(header.media!.size, 1000)
})

t.test('broken bytes are named', async (t) => {
  const head = (text: string): Buffer => {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(Buffer.byteLength(text))
    return Buffer.concat([length, Buffer.from(text)])
  }
  const check = async (bytes: Uint8Array, expected: RegExp): Promise<void> => {
    const error = await read(cut(bytes, 6)).then(() => null, (e: unknown) => e)
    t.ok(error instanceof FrameError)
    t.match((error as Error).message, expected)
  }
  const good = Buffer.from(encodeFrame(stream[1]!))
  await check(new Uint8Array(0), /without a terminal/)
  await check(good, /without a terminal/)
  await check(good.subarray(0, 3), /inside a frame \(3 bytes/)
  await check(good.subarray(0, 20), /inside a frame \(20 bytes/)
  await check(good.subarray(0, -1), /inside a frame/)
  await check(Buffer.from([0xff, 0xff, 0xff, 0xff]), /header of 4294967295 bytes/)
  await check(Buffer.alloc(8), /header of 0 bytes/)
  await check(head('{"a":'), /not JSON/)
  await check(head('[1]'), /not a JSON object/)
  await check(head('{"media":{"size":-1}}'), /media\.size/)
  await check(head('{"media":{"size":1e12}}'), /media\.size/)
  await check(head('{"media":{}}'), /media\.size/)
})

t.test('one message is one frame', async (t) => {
  const one = encodeFrame(stream[1]!)
  t.same(plain(decodeFrame(one) as unknown as Frame), plain(stream[1]!))
  t.throws(() => decodeFrame(Buffer.concat([one, one])), FrameError)
  t.throws(() => decodeFrame(one.subarray(0, -1)), FrameError)
  t.throws(() => decodeFrame(new Uint8Array(2)), FrameError)
})

t.test('events carry the same header, the bytes as base64', async (t) => {
  const text = encodeEvent(stream[1]!)
  t.match(text, /^data: \{.*\}\n\n$/)
  const data = JSON.parse(text.slice(6)) as { media: { data: string, size: number }, payload: unknown }
  t.same([...Buffer.from(data.media.data, 'base64')], [...stream[1]!.media!])
  t.same({ ...data, media: { ...data.media, data: undefined } },
    { ...stream[1]!.header, media: { ...stream[1]!.header.media, data: undefined } })
  t.equal(encodeEvent(frame(1, 'chunk', 'line\nbreak')).split('\n').length, 3,
    'a line break in a payload stays escaped')
})

t.test('Accept', async (t) => {
  const offers = ['application/vnd.svc.frames', 'text/event-stream', 'audio/mpeg']
  const check = (accept: string | undefined, expected: string | null): void => {
    t.equal(chooseType(accept, offers), expected, String(accept))
  }
  check(undefined, offers[0]!)
  check('', offers[0]!)
  check('*/*', offers[0]!)
  check('application/*', offers[0]!)
  check('text/event-stream', 'text/event-stream')
  check('Text/Event-Stream; charset=utf-8', 'text/event-stream')
  check('audio/mpeg', 'audio/mpeg')
  check('audio/mpeg, */*', 'audio/mpeg')
  check('audio/mpeg;q=0.5, */*;q=0.8', offers[0]!)
  check('audio/webm,audio/ogg,audio/*;q=0.9,application/ogg;q=0.7,video/*;q=0.6,*/*;q=0.5', 'audio/mpeg')
  check('text/event-stream;q=0.4, application/vnd.svc.frames;q=0.6', offers[0]!)
  check('application/vnd.svc.frames;q=0, */*', 'text/event-stream')
  check('application/json', null)
  check('audio/wav', null)
  check('*/*;q=0', null)
  check('audio/mpeg;q=2', null)
  check('nonsense', null)
  check('nonsense, text/*', 'text/event-stream')
})
