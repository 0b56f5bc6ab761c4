/** Opus, FLAC and AAC streams that are encoded piece by piece can be decoded and have the right length. */
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { createDecoder } from 'libopus-wasm'
import t from 'tap'
import { createEncoder, type Encoding } from '../engine/encoder.js'
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
    t.equal(head!.readUInt32LE(12), rate)
    const preSkip = head!.readUInt16LE(10)
    const packets = pages.slice(2).flatMap((page) => page.packets)
    let count = 0
    for (const page of pages.slice(2, -1)) {
      count += page.packets.length
      t.equal(page.granule, count * 960, 'the position is behind its last packet')
    }
    const length = pages.at(-1)!.granule - preSkip
    t.equal(length, Math.ceil(samples.length * 48_000 / rate), 'exactly as long as the sound')
    const decoder = await createDecoder({ sampleRate: 48_000, channels: 1 })
    const sound = Float32Array.from(packets.flatMap((packet) => [...decoder.decodeFloat(packet)]))
      .subarray(preSkip, preSkip + length)
    decoder.free()
    const alike = likeness(sound, sweep(length, 48_000))
    t.ok(alike > 0.98, `${rate} Hz: the sound is in its place (${alike})`)
  }
})

interface FlacReader {
  isReady (): boolean
  create_libflac_decoder (verify: boolean): number
  init_decoder_stream (
    decoder: number, read: (size: number) => { buffer: Uint8Array, readDataLength: number, error: boolean },
    write: (channels: Uint8Array[]) => void, error: (code: number, text: string) => void
  ): number
  FLAC__stream_decoder_process_until_end_of_stream (decoder: number): boolean
  FLAC__stream_decoder_delete (decoder: number): void
}

function readFlac (bytes: Buffer): { samples: number[], errors: string[] } {
  const flac = createRequire(import.meta.url)('libflacjs/dist/libflac.min.js') as FlacReader
  const decoder = flac.create_libflac_decoder(true)
  const samples: number[] = []
  const errors: string[] = []
  let at = 0
  flac.init_decoder_stream(decoder, (size) => {
    const buffer = Uint8Array.from(bytes.subarray(at, at + size))
    at += buffer.length
    return { buffer, readDataLength: buffer.length, error: false }
  }, ([mono]) => {
    const view = Buffer.from(mono!)
    for (let i = 0; i < view.length; i += 2) samples.push(view.readInt16LE(i))
  }, (_code, text) => { errors.push(text) })
  flac.FLAC__stream_decoder_process_until_end_of_stream(decoder)
  flac.FLAC__stream_decoder_delete(decoder)
  return { samples, errors }
}

t.test('flac gives back every sample, and comes while it is made', async (t) => {
  for (const [rate, length] of [[16_000, 20_001], [22_050, 1152 * 3], [24_000, 1]] as const) {
    const samples = sweep(length, rate)
    const parts = await encode('flac', samples, rate)
    const expected = toInt16(samples)
    const { samples: read, errors } = readFlac(Buffer.concat(parts))
    t.same(errors, [])
    t.ok(read.length === length && read.every((v, i) => v === expected[i]), `${rate} Hz: ${read.length}`)
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

t.test('an encoder whose thread dies ends the answer at once', { timeout: 20_000 }, async (t) => {
  const rate = 16_000
  const threads: Worker[] = []
  const seen = (worker: Worker): void => { threads.push(worker) }
  process.on('worker', seen)
  const [dies, goesOn] = [await createEncoder('aac', rate), await createEncoder('aac', rate)]
  await Promise.all([dies.encode(sweep(rate, rate)), goesOn.encode(sweep(rate, rate))])
  process.off('worker', seen)
  t.equal(threads.length, 2)
  const died = { reason: 'provider_error', message: /AAC encoder .* exited/ }
  const waiting = t.rejects(async () => await dies.encode(sweep(8 * rate, rate)), died)
  // Bypass the encoder's override of `terminate`, so that the exit looks like a crash.
  await Worker.prototype.terminate.call(threads[0])
  await waiting
  await t.rejects(async () => await dies.encode(sweep(rate, rate)), died)
  await t.rejects(async () => await dies.finish(), died)
  await dies.close?.()
  const { bytes } = await goesOn.finish()
  t.ok(bytes.length > 0, 'the other one knows nothing of it')
  await goesOn.close?.()
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
