// The fixtures are one second of a 440 Hz tone, made by FFmpeg 5.1 at 16 to 48 kHz.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { decodeFile, decodePcm } from '../engine/decode/index.js'

const fixture = (name: string): Buffer =>
  readFileSync(fileURLToPath(new URL(`fixtures/${name}`, import.meta.url)))
const tone = (i: number, rate: number): number => 0.125 * Math.sin(2 * Math.PI * 440 * i / rate)

interface Wav { tag?: number, bits?: number, channels?: number, rate?: number, seconds?: number }

function wav ({ tag = 1, bits = 16, channels = 1, rate = 16_000, seconds = 1 }: Wav): Buffer {
  const width = bits / 8
  const data = Buffer.alloc(rate * seconds * width * channels)
  for (let at = 0; at < data.length; at += width) {
    const value = tone(Math.floor(at / width / channels), rate)
    if (tag === 3) data.writeFloatLE(value, at)
    else if (tag === 7) data[at] = muLaw(value)
    else if (bits === 8) data[at] = Math.round(128 + 127 * value)
    else data.writeIntLE(Math.round(value * (2 ** (bits - 1) - 1)), at, width)
  }
  const head = Buffer.alloc(44)
  head.write('RIFF\0\0\0\0WAVEfmt ', 0, 'latin1')
  head.writeUInt32LE(36 + data.length, 4)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(tag, 20)
  head.writeUInt16LE(channels, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt32LE(rate * width * channels, 28)
  head.writeUInt16LE(width * channels, 32)
  head.writeUInt16LE(bits, 34)
  head.write('data', 36, 'latin1')
  head.writeUInt32LE(data.length, 40)
  return Buffer.concat([head, data])
}

/** ITU-T G.711. */
function muLaw (value: number): number {
  const size = Math.min(32_635, Math.round(Math.abs(value) * 32_768)) + 132
  const exponent = Math.floor(Math.log2(size)) - 7
  return ~((value < 0 ? 128 : 0) | (exponent << 4) | ((size >> (exponent + 3)) & 15)) & 255
}

async function * inPieces (bytes: Buffer, size = 1000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function decode (
  bytes: Buffer, folder: string, maxSeconds = 60, maxBytes = 2 ** 24
): Promise<Float32Array> {
  const blocks: number[][] = []
  const { signal } = new AbortController()
  for await (const block of decodeFile(inPieces(bytes), { maxSeconds, maxBytes, folder }, signal)) {
    if (block.length > 16_000) throw new Error(`a block of ${block.length} samples`)
    blocks.push([...block])
  }
  return Float32Array.from(blocks.flat())
}

/** Correlation with the tone of 440 Hz in any phase; 1 if the sound is the tone. */
function likeness (sound: Float32Array): number {
  let [sin, cos, energy] = [0, 0, 0]
  sound.forEach((v, i) => {
    sin += v * Math.sin(2 * Math.PI * 440 * i / 16_000)
    cos += v * Math.cos(2 * Math.PI * 440 * i / 16_000)
    energy += v * v
  })
  return Math.hypot(sin, cos) / Math.sqrt(energy * sound.length / 2)
}

const reasonOf = async (work: Promise<unknown>): Promise<unknown> =>
  await work.then(() => 'none', (error: { reason?: unknown }) => error.reason)

const WAVS: Readonly<Record<string, Wav>> = {
  '16 bits': {},
  '8 bits': { bits: 8 },
  '24 bits, stereo, 48 kHz': { bits: 24, channels: 2, rate: 48_000 },
  'float, 44.1 kHz': { tag: 3, bits: 32, rate: 44_100 },
  'mu-law, 8 kHz': { tag: 7, bits: 8, rate: 8_000 },
  '8 channels, 192 kHz': { channels: 8, rate: 192_000 }
}

t.test('every type of file', async (t) => {
  const folder = t.testdir()
  const files = new Map(Object.entries(WAVS).map(([name, shape]) => [name, wav(shape)]))
  for (const name of ['a.flac', 'a.m4a', 'a.mp3', 'opus.ogg', 'opus.webm', 'vorbis.ogg']) {
    files.set(name, fixture(name))
  }
  // Players write tags before the first frame.
  const tag = Buffer.from('ID3\x04\0\0\0\0\x02\0', 'latin1')
  files.set('MP3 after a tag', Buffer.concat([tag, Buffer.alloc(256), fixture('a.mp3')]))
  files.set('FLAC after a tag', Buffer.concat([tag, Buffer.alloc(256), fixture('a.flac')]))
  files.set('truncated FLAC', fixture('a.flac').subarray(0, 4_000))
  files.set('truncated WAV', wav({}).subarray(0, 20_001))
  for (const [name, bytes] of files) {
    const sound = await decode(bytes, folder)
    const whole = !name.startsWith('truncated')
    t.ok(whole ? Math.abs(sound.length - 16_000) < 1100 : sound.length > 8_000, `${name}: ${sound.length}`)
    t.ok(likeness(sound) > 0.98, `${name}: the tone (${likeness(sound)})`)
  }
  t.same(readdirSync(folder), [], 'leaves no file')
})

t.test('files without sound that can be used', async (t) => {
  const folder = t.testdir()
  const long = (): Buffer => wav({ seconds: 3 })
  for (const [name, bytes, reason] of [
    ['not audio', Buffer.from('no sound at all, but a text. '.repeat(100)), 'audio_undecodable'],
    ['zero length', Buffer.alloc(0), 'audio_undecodable'],
    ['no samples', wav({ seconds: 0 }), 'audio_undecodable'],
    ['truncated in its header', fixture('opus.webm').subarray(0, 60), 'audio_undecodable'],
    ['index cut off', fixture('a.m4a').subarray(0, 3000), 'audio_undecodable'],
    ['a codec that is unknown', wav({ tag: 0x161 }), 'audio_undecodable'],
    ['9 channels', wav({ channels: 9 }), 'audio_unsupported'],
    ['384 kHz', wav({ rate: 384_000 }), 'audio_unsupported'],
    ['100 Hz', wav({ rate: 100 }), 'audio_unsupported'],
    ['too long', long(), 'audio_too_long']
  ] as const) {
    t.equal(await reasonOf(decode(bytes, folder, 2)), reason, name)
  }
  t.equal(await reasonOf(decode(long(), folder, 60, 50_000)), 'audio_too_long', 'too large')
  t.same(readdirSync(folder), [], 'leaves no file')
})

t.test('a task that is cancelled', async (t) => {
  const folder = t.testdir()
  const cancelled = new AbortController()
  const sound = decodeFile(inPieces(wav({ seconds: 5 })), { maxSeconds: 9, maxBytes: 2 ** 20, folder },
    cancelled.signal)
  await sound.next()
  cancelled.abort()
  await t.rejects(sound.next(), { name: 'AbortError' })
  t.same(readdirSync(folder), [])
})

t.test('raw samples come out at once, at any rate and however they are cut', async (t) => {
  for (const rate of [8_000, 16_000, 24_000, 48_000]) {
    const bytes = Buffer.alloc(2 * 3 * rate)
    for (let i = 0; i < 3 * rate; i++) bytes.writeInt16LE(Math.round(32_767 * tone(i, rate)), 2 * i)
    for (const size of [999, 10 * rate]) {
      const blocks: Float32Array[] = []
      for await (const block of decodePcm(inPieces(bytes, size), rate, 4)) blocks.push(block)
      const sound = Float32Array.from(blocks.flatMap((block) => [...block]))
      t.equal(sound.length, 48_000, `${rate} Hz in ${size}`)
      t.ok(likeness(sound) > 0.99, `${rate} Hz in ${size}`)
      t.ok(blocks.every((block) => block.length > 0 && block.length <= 16_000))
      t.ok(blocks.length >= 3)
    }
  }
  const all = async (): Promise<void> => {
    for await (const _ of decodePcm(inPieces(Buffer.alloc(96_000)), 16_000, 2)) { /* to the end */ }
  }
  t.equal(await reasonOf(all()), 'audio_too_long')
})
