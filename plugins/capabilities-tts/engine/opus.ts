/** Opus (libopus in WebAssembly) in Ogg (RFC 7845); each piece ends with a complete page. */
import { Application, createEncoder, Signal, type OpusEncoderHandle, type SampleRate } from 'libopus-wasm'
import { Resampler } from '../../runners/onnx/resample.js'
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
