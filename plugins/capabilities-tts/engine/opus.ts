/** Opus (libopus in WebAssembly) in Ogg (RFC 7845); each piece ends with a complete page. */
import { Application, createEncoder, Signal, type OpusEncoderHandle, type SampleRate } from 'libopus-wasm'
import { clipped, type AudioEncoder, type Encoded } from './samples.js'

/** Granule positions count samples at this rate, whatever the encoder's rate. */
const CLOCK = 48_000
/** Rates at which libopus keeps the full bandwidth; others are resampled to the highest. */
const RATES: readonly number[] = [16_000, 24_000, 48_000]
const FRAMES_PER_SECOND = 50
/** Ogg serial number: any constant will do, because a file has only one stream. */
const SERIAL = 0x5356_4331

/** Bits per second, high enough for a single voice. */
const bitrateOf = (rate: number): number => rate <= 24_000 ? 32_000 : 48_000

export async function openOpus (sampleRate: number): Promise<AudioEncoder> {
  const rate = RATES.includes(sampleRate) ? sampleRate : CLOCK
  const encoder = await createEncoder({
    sampleRate: rate as SampleRate, channels: 1, application: Application.Audio, signal: Signal.Voice,
    bitrate: bitrateOf(rate)
  })
  return new OpusStream(encoder, sampleRate)
}

class OpusStream implements AudioEncoder {
  private readonly encoder: OpusEncoderHandle
  private readonly ogg = new OggWriter(SERIAL)
  private readonly resampler: Resampler | undefined
  private readonly scale: number
  /** Samples that decoders skip at the start, and samples per frame, at CLOCK. */
  private readonly preSkip: number
  private readonly frame: number
  private header: Uint8Array
  private held = new Float32Array(0)
  private samples = 0
  private packets = 0

  constructor (encoder: OpusEncoderHandle, sampleRate: number) {
    this.encoder = encoder
    this.resampler = encoder.sampleRate === sampleRate ? undefined : new Resampler(sampleRate, CLOCK)
    this.scale = CLOCK / encoder.sampleRate
    this.preSkip = encoder.getLookahead() * this.scale
    this.frame = CLOCK / FRAMES_PER_SECOND
    this.header = Buffer.concat([opusHead(this.preSkip, sampleRate), opusTags()].map((bytes) =>
      this.ogg.pages([{ bytes, granule: 0 }])))
  }

  encode (samples: Float32Array): Encoded {
    const clean = clipped(samples)
    const input = this.resampler?.push(clean) ?? clean
    this.samples += input.length
    const before = this.seconds
    return { bytes: this.write(this.take(input)), seconds: this.seconds - before }
  }

  /** Pads with silence to flush the encoder; the last granule position trims the padding. */
  finish (): Encoded {
    const before = this.seconds
    const rest = this.resampler?.finish() ?? new Float32Array(0)
    this.samples += rest.length
    const end = this.preSkip + this.samples * this.scale
    const missing = Math.ceil(end / this.frame) * this.frame - this.packets * this.frame
    const input = new Float32Array(missing / this.scale - this.held.length)
    input.set(rest)
    const packets = this.take(input)
    packets.at(-1)!.granule = end
    return { bytes: this.write(packets, true), seconds: this.samples * this.scale / CLOCK - before }
  }

  close (): void {
    this.encoder.free()
  }

  private get seconds (): number {
    return Math.max(0, this.packets * this.frame - this.preSkip) / CLOCK
  }

  /** Adds samples, and returns the packets that are now complete. */
  private take (samples: Float32Array): Packet[] {
    const size = this.frame / this.scale
    const input = new Float32Array(this.held.length + samples.length)
    input.set(this.held)
    input.set(samples, this.held.length)
    const packets: Packet[] = []
    let at = 0
    for (; at + size <= input.length; at += size) {
      const bytes = this.encoder.encodeFloat(input.subarray(at, at + size))
      packets.push({ bytes, granule: ++this.packets * this.frame })
    }
    this.held = input.slice(at)
    return packets
  }

  private write (packets: readonly Packet[], last = false): Uint8Array {
    if (packets.length === 0) return new Uint8Array(0)
    const bytes = Buffer.concat([this.header, this.ogg.pages(packets, last)])
    this.header = new Uint8Array(0)
    return bytes
  }
}

function opusHead (preSkip: number, sampleRate: number): Uint8Array {
  const head = Buffer.alloc(19)
  head.write('OpusHead', 0, 'latin1')
  head[8] = 1
  head[9] = 1
  head.writeUInt16LE(preSkip, 10)
  head.writeUInt32LE(sampleRate, 12)
  return head
}

/** The Opus comment header, without tags. */
function opusTags (): Uint8Array {
  const vendor = Buffer.from('svc')
  const tags = Buffer.alloc(16 + vendor.length)
  tags.write('OpusTags', 0, 'latin1')
  tags.writeUInt32LE(vendor.length, 8)
  vendor.copy(tags, 12)
  return tags
}

/** Maximum number of lacing values in a page. */
const SEGMENTS = 255
const FIRST_PAGE = 2
const LAST_PAGE = 4

/** Ogg's CRC: polynomial 0x04c11db7, most significant bit first, without inversion. */
const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte << 24
  for (let bit = 0; bit < 8; bit++) value = (value << 1) ^ (value < 0 ? 0x04c11db7 : 0)
  return value
})

function checksum (bytes: Uint8Array): number {
  let value = 0
  for (const byte of bytes) value = (value << 8) ^ CRC[(value >>> 24) ^ byte]!
  return value >>> 0
}

/** `granule`: position after the packet, in samples. */
interface Packet { bytes: Uint8Array, granule: number }

/** Writes packets as pages; never splits a packet of less than 65,025 bytes. */
class OggWriter {
  private readonly serial: number
  private sequence = 0

  constructor (serial: number) {
    this.serial = serial
  }

  /** Uses as few pages as possible; `last` marks the end of the stream. */
  pages (packets: readonly Packet[], last = false): Uint8Array {
    const pages: Uint8Array[] = []
    for (let at = 0; at < packets.length;) {
      const end = this.fitting(packets, at)
      pages.push(this.page(packets.slice(at, end), last && end === packets.length))
      at = end
    }
    return Buffer.concat(pages)
  }

  private fitting (packets: readonly Packet[], from: number): number {
    let segments = 0
    let end = from
    while (end < packets.length) {
      segments += lacing(packets[end]!.bytes)
      if (segments > SEGMENTS && end > from) break
      end++
    }
    return end
  }

  private page (packets: readonly Packet[], last: boolean): Uint8Array {
    const lengths = packets.flatMap(({ bytes }) =>
      Array.from({ length: lacing(bytes) }, (_, i) => Math.min(255, bytes.length - i * 255)))
    const header = Buffer.alloc(27)
    header.write('OggS', 0, 'latin1')
    header[5] = (this.sequence === 0 ? FIRST_PAGE : 0) | (last ? LAST_PAGE : 0)
    header.writeBigUInt64LE(BigInt(packets.at(-1)!.granule), 6)
    header.writeUInt32LE(this.serial, 14)
    header.writeUInt32LE(this.sequence++, 18)
    header[26] = lengths.length
    const page = Buffer.concat([header, Uint8Array.from(lengths), ...packets.map(({ bytes }) => bytes)])
    page.writeUInt32LE(checksum(page), 22)
    return page
  }
}

/** Number of lacing values: one per 255 bytes, and a last one below 255. */
const lacing = (bytes: Uint8Array): number => Math.floor(bytes.length / 255) + 1

/** Input samples on each side of an output sample. */
const REACH = 24
/** Pass band as a fraction of the lower rate's bandwidth; the rest is the transition band. */
const KEPT = 0.94

const gcd = (a: number, b: number): number => b === 0 ? a : gcd(b, a % b)

const sinc = (x: number): number => x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x)
/** Blackman window over -1 to 1. */
const blackman = (x: number): number => 0.42 + 0.5 * Math.cos(Math.PI * x) + 0.08 * Math.cos(2 * Math.PI * x)

/** Rates in whole Hz. Output sample n is at time n / `to`. */
export class Resampler {
  private readonly up: number
  private readonly down: number
  /** `up` filters of 2 * REACH taps, one per phase between two input samples. */
  private readonly filters: Float32Array
  /** The last input samples; the first one has index `start`. */
  private held: Float32Array
  private start = -REACH
  private next = 0
  private length = 0

  constructor (from: number, to: number) {
    const common = gcd(from, to)
    this.up = to / common
    this.down = from / common
    this.held = new Float32Array(REACH)
    const band = KEPT * Math.min(1, to / from)
    this.filters = new Float32Array(this.up * 2 * REACH)
    for (let phase = 0; phase < this.up; phase++) {
      for (let tap = 0; tap < 2 * REACH; tap++) {
        const distance = tap - REACH + 1 - phase / this.up
        const weight = Math.abs(distance) < REACH ? blackman(distance / REACH) : 0
        this.filters[phase * 2 * REACH + tap] = band * sinc(band * distance) * weight
      }
    }
  }

  push (samples: Float32Array): Float32Array {
    this.length += samples.length
    return this.run(samples, Math.floor(Math.max(0, this.length - REACH) * this.up / this.down))
  }

  /** The remaining samples; the total is input samples * to / from, rounded up. */
  finish (): Float32Array {
    return this.run(new Float32Array(REACH + 1), Math.ceil(this.length * this.up / this.down))
  }

  /** Appends input, and computes outputs up to index `end`. */
  private run (samples: Float32Array, end: number): Float32Array {
    const input = new Float32Array(this.held.length + samples.length)
    input.set(this.held)
    input.set(samples, this.held.length)
    const out = new Float32Array(Math.max(0, end - this.next))
    for (let i = 0; i < out.length; i++) {
      const at = this.next + i
      const whole = Math.floor(at * this.down / this.up)
      const filter = (at * this.down - whole * this.up) * 2 * REACH
      const first = whole - REACH + 1 - this.start
      let sum = 0
      for (let tap = 0; tap < 2 * REACH; tap++) sum += this.filters[filter + tap]! * input[first + tap]!
      out[i] = sum
    }
    this.next += out.length
    const needed = Math.floor(this.next * this.down / this.up) - REACH + 1 - this.start
    const dropped = Math.min(Math.max(0, needed), input.length)
    this.held = input.slice(dropped)
    this.start += dropped
    return out
  }
}
