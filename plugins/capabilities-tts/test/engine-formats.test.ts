/** Opus, FLAC and AAC streams that are encoded piece by piece can be decoded and have the right length. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { decodeContainer } from '../../capabilities-stt/engine/decode/index.js'
import type { Encoding } from '../engine/encoder.js'
import { toInt16 } from '../engine/samples.js'
import { Resampler } from '../../runners/onnx/resample.js'
import { partsOf } from './engine-kit.js'

/** A rising tone, so that every position is distinct. */
const sweep = (length: number, rate: number): Float32Array => Float32Array.from({ length }, (_, i) =>
  0.5 * Math.sin(2 * Math.PI * (200 * i / rate + 400 * (i / rate) ** 2)) * Math.min(1, 40 * i / rate))

const pieces = (samples: Float32Array, size: number): Float32Array[] =>
  Array.from({ length: Math.ceil(samples.length / size) }, (_, i) =>
    samples.subarray(i * size, (i + 1) * size))

async function encode (encoding: Encoding, samples: Float32Array, rate: number): Promise<Buffer[]> {
  return (await partsOf(encoding, rate, pieces(samples, 1777))).map(({ bytes }) => Buffer.from(bytes))
}

async function decode (path: string, bytes: Buffer): Promise<Float32Array> {
  writeFileSync(path, bytes)
  const file = await open(path)
  const parts: number[] = []
  for await (const { channels } of decodeContainer(file, 0, bytes.length)) parts.push(...channels[0]!)
  await file.close()
  return Float32Array.from(parts)
}

/** Correlation of two sounds; 1 if they are equal. */
function likeness (a: Float32Array, b: Float32Array): number {
  const dot = (x: Float32Array, y: Float32Array): number => x.reduce((sum, v, i) => sum + v * (y[i] ?? 0), 0)
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))
}

interface Page { flags: number, granule: number, sequence: number, packets: Buffer[], bytes: number }

/** An Ogg page's checksum, computed bit by bit as in RFC 3533. */
function checksum (page: Buffer): number {
  let value = 0
  for (const byte of page) {
    value ^= byte << 24
    for (let bit = 0; bit < 8; bit++) value = value < 0 ? (value << 1) ^ 0x04c11db7 : value << 1
  }
  return value >>> 0
}

function readPages (bytes: Buffer): Page[] {
  const pages: Page[] = []
  for (let at = 0; at < bytes.length;) {
    if (bytes.toString('latin1', at, at + 4) !== 'OggS') throw new Error(`no page at ${at}`)
    const segments = [...bytes.subarray(at + 27, at + 27 + bytes[at + 26]!)]
    const start = at + 27 + segments.length
    const end = start + segments.reduce((a, b) => a + b, 0)
    const page = Buffer.from(bytes.subarray(at, end))
    const told = page.readUInt32LE(22)
    page.writeUInt32LE(0, 22)
    if (checksum(page) !== told) throw new Error(`the page at ${at} has another checksum`)
    const packets: Buffer[] = []
    let from = start
    let length = 0
    for (const segment of segments) {
      length += segment
      if (segment === 255) continue
      packets.push(bytes.subarray(from, from + length))
      from += length
      length = 0
    }
    pages.push({ flags: page[5]!, granule: Number(page.readBigUInt64LE(6)), sequence: page.readUInt32LE(18),
      packets, bytes: end - at })
    at = end
  }
  return pages
}

t.test('opus is a stream of whole pages that ends with the sound', async (t) => {
  for (const rate of [16_000, 22_050, 24_000]) {
    const samples = sweep(Math.round(rate * 0.71), rate)
    const parts = await encode('opus', samples, rate)
    t.doesNotThrow(() => { for (const part of parts) readPages(part) }, `${rate} Hz: a part is whole pages`)
    const pages = readPages(Buffer.concat(parts))
    t.same(pages.map(({ sequence }) => sequence), pages.map((_, i) => i))
    t.same([pages[0]!.flags, pages.at(-1)!.flags], [2, 4])
    t.ok(pages.slice(1, -1).every(({ flags }) => flags === 0))
    const [head, tags] = pages.slice(0, 2).flatMap(({ packets }) => packets)
    t.same([head!, tags!].map((packet) => packet.toString('latin1', 0, 8)), ['OpusHead', 'OpusTags'])
    t.equal(head!.readUInt32LE(12), rate === 22_050 ? 48_000 : rate)
    const preSkip = head!.readUInt16LE(10)
    let count = 0
    for (const page of pages.slice(2, -1)) {
      count += page.packets.length
      t.equal(page.granule, count * 960, 'the position is behind its last packet')
    }
    const length = pages.at(-1)!.granule - preSkip
    t.equal(length, Math.ceil(samples.length * 48_000 / rate), 'exactly as long as the sound')
    const sound = await decode(join(t.testdir(), 'sound.ogg'), Buffer.concat(parts))
    t.ok(Math.abs(sound.length - length) <= 960, `${sound.length} of ${length} samples`)
    const alike = likeness(sound, sweep(length, 48_000))
    t.ok(alike > 0.98, `${rate} Hz: the sound is in its place (${alike})`)
  }
})

t.test('flac gives back every sample, and comes while it is made', async (t) => {
  for (const [rate, length] of [[16_000, 20_001], [22_050, 1152 * 3], [24_000, 1]] as const) {
    const samples = sweep(length, rate)
    const parts = await encode('flac', samples, rate)
    const expected = toInt16(samples)
    const read = await decode(join(t.testdir(), 'sound.flac'), Buffer.concat(parts))
    t.same([...read].map((v) => v * 32_768), [...expected], `${rate} Hz`)
    if (parts.length > 3) t.ok(parts.every((part) => part.length > 0), 'each piece gives something')
  }
})

t.test('aac is whole ADTS frames, a piece at a time', async (t) => {
  const rates = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000]
  for (const rate of [16_000, 22_050]) {
    const samples = sweep(rate, rate)
    const parts = await encode('aac', samples, rate)
    let frames = 0
    for (const part of parts) {
      for (let at = 0; at < part.length; frames++) {
        t.equal(part.readUInt16BE(at) & 0xfff6, 0xfff0, 'the mark of a frame')
        t.equal(rates[(part[at + 2]! >> 2) & 15], rate)
        at += (part.readUInt32BE(at + 2) >> 5) & 0x1fff
      }
    }
    t.ok(frames * 1024 >= rate + 1024 && frames * 1024 <= rate + 4096, `${frames} frames`)
    t.ok(parts.filter((part) => part.length > 0).length > parts.length / 2, 'not all at the end')
  }
})

t.test('a resampled sound is the sound at the other rate', (t) => {
  for (const [from, to] of [[22_050, 48_000], [44_100, 48_000], [48_000, 16_000]] as const) {
    const resampler = new Resampler(from, to)
    const pushed = pieces(sweep(from, from), 999).map((piece) => resampler.push(piece))
    const parts = [...pushed, resampler.finish()]
    const out = Float32Array.from(parts.flatMap((part) => [...part]))
    t.equal(out.length, to, `${from} to ${to}: a second stays a second`)
    const expected = sweep(to, to)
    const worst = out.subarray(2_000, -200)
      .reduce((most, v, i) => Math.max(most, Math.abs(v - expected[i + 2_000]!)), 0)
    t.ok(worst < 0.002, `${from} to ${to}: differs by ${worst}`)
    const whole = new Resampler(from, to)
    const once = [whole.push(sweep(from, from)), whole.finish()].flatMap((part) => [...part])
    t.same(once.length, out.length)
    t.ok(once.every((v, i) => Math.abs(v - out[i]!) < 1e-6), 'whatever the pieces')
  }
  t.end()
})

t.test('players of others', async (t) => {
  const has = spawnSync('ffmpeg', ['-version']).status === 0
  if (!has) {
    t.comment('skipped: no ffmpeg in PATH (Debian: apt-get install ffmpeg)')
    return
  }
  const folder = t.testdir()
  const samples = sweep(22_050, 22_050)
  const heard: Record<string, Float32Array> = {}
  for (const encoding of ['wav', 'opus', 'flac', 'aac', 'mp3'] as const) {
    const path = join(folder, `sound.${encoding}`)
    writeFileSync(path, Buffer.concat(await encode(encoding, samples, 22_050)))
    const { stdout, stderr } = spawnSync(
      'ffmpeg', ['-v', 'error', '-i', path, '-f', 'f32le', '-ac', '1', '-ar', '22050', '-'],
      { maxBuffer: 2 ** 26 })
    t.equal(stderr.toString(), '', encoding)
    heard[encoding] = new Float32Array(Uint8Array.from(stdout).buffer)
  }
  t.same([...heard['flac']!], [...heard['wav']!])
  t.ok(Math.abs(heard['opus']!.length - samples.length) <= 1)
  t.ok(likeness(heard['opus']!, samples) > 0.95, `opus ${likeness(heard['opus']!, samples)}`)
  const aac = likeness(heard['aac']!.subarray(1024), samples)
  t.ok(aac > 0.95, `aac ${aac}`)
})
