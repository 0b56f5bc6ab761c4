import t from 'tap'
import { createEncoder, ENCODINGS, MP3_RATES } from '../engine/encoder.js'
import { toInt16 } from '../engine/samples.js'
import { readFrame } from './mp3-frames.js'
import { partsOf, tone } from './engine-kit.js'
import { framesSeconds, walkFrames } from './mp3.js'

// Encoder and decoder delay of MP3 in samples; padding to whole frames adds more.
const DELAY = 1105

t.test('an MP3 at each rate is whole mono frames of the right length', async (t) => {
  for (const rate of MP3_RATES) {
    const parts = await partsOf('mp3', rate, [0.01, 0.3, 0.07, 1].map((seconds) =>
      tone(Math.round(seconds * rate), rate)))
    for (const { bytes, seconds } of parts) {
      const { frames, rest } = walkFrames(bytes)
      t.equal(rest, 0, `${rate} Hz: frames and nothing else`)
      t.ok(Math.abs(seconds - framesSeconds(frames)) < 0.001, `${rate} Hz: reported duration`)
      t.ok(frames.every((f) => f.sampleRate === rate && f.mono), `${rate} Hz: mono at its own rate`)
    }
    const { frames } = walkFrames(Buffer.concat(parts.map((p) => p.bytes)))
    const extra = framesSeconds(frames) * rate - Math.round(1.38 * rate)
    const frame = frames[0]?.samples ?? 0
    t.ok(extra >= DELAY - 1 && extra <= DELAY + 2 * frame, `${rate} Hz: ${extra} samples more than went in`)
  }
})

t.test('the last part of an encoding is never empty', async (t) => {
  for (const encoding of ENCODINGS) {
    for (const length of [0, 1, 576, 1152]) {
      const [, last] = await partsOf(encoding, 16_000, [new Float32Array(length)])
      t.ok(last!.bytes.length > 0, `${encoding} of ${length} samples`)
    }
  }
})

t.test('MP3 and AAC at another rate are refused with a way out', async (t) => {
  for (const encoding of ['mp3', 'aac'] as const) {
    await t.rejects(createEncoder(encoding, 20_000), {
      reason: 'format_unsupported', message: /20000 Hz.*request opus, flac, wav or pcm/
    })
  }
  for (const encoding of ['opus', 'flac', 'wav', 'pcm'] as const) {
    const parts = await partsOf(encoding, 20_000, [tone(2_000, 20_000)])
    t.ok(Math.abs(parts.reduce((sum, { seconds }) => sum + seconds, 0) - 0.1) < 0.0001, encoding)
  }
})

t.test('pcm is every sample once, wav the same behind a header of unknown length', async (t) => {
  const samples = Float32Array.from([0, 0.5, -0.5, 1, -1, 2, -2, NaN])
  const pieces = [samples.subarray(0, 3), samples.subarray(3, 3), samples.subarray(3)]
  const bytesOf = async (encoding: 'wav' | 'pcm'): Promise<Buffer> =>
    Buffer.concat((await partsOf(encoding, 22_050, pieces)).map(({ bytes }) => bytes))
  const pcm = await bytesOf('pcm')
  const read = Array.from({ length: pcm.length / 2 }, (_, i) => pcm.readInt16LE(i * 2))
  t.same(read, [0, 16_384, -16_383, 32_767, -32_767, 32_767, -32_767, 0])
  t.same(read, [...toInt16(samples)])
  const wav = await bytesOf('wav')
  t.same(wav.subarray(44), pcm)
  t.match({
    riff: wav.toString('latin1', 0, 4),
    size: wav.readUInt32LE(4),
    rate: wav.readUInt32LE(24),
    data: wav.readUInt32LE(40)
  }, { riff: 'RIFF', size: 0xffffffff, rate: 22_050, data: 0xffffffff })
})

t.test('the walker stops at what is not a frame', async (t) => {
  const parts = await partsOf('mp3', 16_000, [tone(16_000, 16_000)])
  const bytes = Buffer.concat(parts.map((part) => part.bytes))
  const { frames } = walkFrames(bytes)
  const last = frames.at(-1)
  t.equal(walkFrames(bytes.subarray(0, -1)).rest, (last?.size ?? 0) - 1, 'a cut frame is rest')
  t.match(walkFrames(Buffer.from('ID3 not a frame')), { frames: [], rest: 15 })
  t.match(walkFrames(new Uint8Array()), { frames: [], rest: 0 })
  for (const header of [
    [0xff, 0xf2, 0, 0], [0xff, 0xfb, 0xf0, 0], [0xff, 0xfb, 0x9c, 0], [0xff, 0xff, 0x90, 0],
    [0xff, 0xeb, 0x90, 0]
  ]) {
    t.equal(readFrame(Uint8Array.from(header), 0), undefined, `header ${header.join(' ')}`)
  }
  t.match(
    readFrame(Uint8Array.from([0xff, 0xfb, 0x90, 0]), 0),
    { sampleRate: 44_100, kbps: 128, size: 417, samples: 1152 }
  )
})
