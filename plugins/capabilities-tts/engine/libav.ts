/** Opus in Ogg, AAC-LC in ADTS frames and FLAC without length and hash (FFmpeg in WebAssembly). */
import { createRequire } from 'node:module'
import type { Frame, LibAV, LibAVSync, LibAVWrapper, Packet } from '@libav.js/variant-fat'
import { Resampler } from '../../runners/onnx/resample.js'
import { clipped, joined, toInt16, type AudioEncoder, type Encoded } from './samples.js'

/** FFmpeg's constants: a channel layout of one channel, no log output, and reproducible files. */
const MONO = 4
const QUIET = -8
const BITEXACT = 0x400
/** FFmpeg's sample formats: 16-bit integers, floats, and floats with an array per channel. */
const INTEGERS = 1
const FLOATS = 3
const PLANES = 8

/** Rates in Hz at which libopus keeps the full bandwidth; others are resampled to its clock. */
const OPUS_CLOCK = 48_000
const OPUS_RATES = [16_000, 24_000, OPUS_CLOCK]
/** Rates in Hz by ADTS's index, and samples per frame. */
const ADTS_RATES = [0, 0, 0, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000]
const ADTS_FRAME = 1024
export const AAC_RATES: readonly number[] = ADTS_RATES.slice(3).reverse()
/** Samples per block of FLAC (48 ms at 24 kHz); a small block shortens the delay. */
const FLAC_BLOCK = 1152
/** Bytes of FLAC's STREAMINFO. */
const FLAC_INFO = 34

/** Bit rates for one voice: up to 24 kHz, and above. */
const CODECS = {
  opus: { name: 'libopus', format: FLOATS, bitRates: [32_000, 48_000] },
  aac: { name: 'aac', format: PLANES, bitRates: [64_000, 96_000] },
  flac: { name: 'flac', format: INTEGERS, bitRates: [0, 0] }
} as const

type Lib = LibAV & LibAVSync
let loaded: Promise<Lib> | undefined
/** Output of Ogg's muxer. All calls are synchronous, so it belongs to the current stream. */
const written: Uint8Array[] = []
let streams = 0

async function load (): Promise<Lib> {
  // Required, since the package's types do not declare what its CommonJS module exports.
  const factory: LibAVWrapper = createRequire(import.meta.url)('@libav.js/variant-fat')
  const lib = await factory.LibAV({ noworker: true })
  lib.av_log_set_level_sync(QUIET)
  lib.onwrite = (_name, _at, bytes) => { written.push(Uint8Array.from(bytes)) }
  return lib
}

export async function openLibav (encoding: keyof typeof CODECS, sampleRate: number): Promise<AudioEncoder> {
  return new LibavStream(await (loaded ??= load()), encoding, sampleRate)
}

class LibavStream implements AudioEncoder {
  private readonly lib: Lib
  private readonly encoding: keyof typeof CODECS
  private readonly rate: number
  /** Units per second of packets' times: libopus's clock, or samples. */
  private readonly clock: number
  private readonly resampler: Resampler | undefined
  private readonly encoder: ReturnType<Lib['ff_init_encoder_sync']>
  private readonly ogg: ReturnType<Lib['ff_init_muxer_sync']> | undefined
  private readonly file = `sound-${streams++}`
  private header: Uint8Array[] = []
  /** At most a frame, withheld so that `finish` is never without bytes. */
  private held = new Float32Array()
  private samples = 0
  private end = 0

  constructor (lib: Lib, encoding: keyof typeof CODECS, sampleRate: number) {
    const { name, format, bitRates: [low, high] } = CODECS[encoding]
    const opus = encoding === 'opus'
    this.lib = lib
    this.encoding = encoding
    this.rate = !opus || OPUS_RATES.includes(sampleRate) ? sampleRate : OPUS_CLOCK
    this.clock = opus ? OPUS_CLOCK : sampleRate
    this.resampler = this.rate === sampleRate ? undefined : new Resampler(sampleRate, this.rate)
    this.encoder = lib.ff_init_encoder_sync(name, {
      ctx: {
        sample_rate: this.rate, sample_fmt: format, channels: 1, channel_layout: MONO, frame_size: FLAC_BLOCK,
        bit_rate: this.rate <= 24_000 ? low : high
      },
      time_base: [1, this.clock]
    })
    const context = this.encoder[1]
    if (encoding === 'flac') {
      const info = lib.copyout_u8_sync(lib.AVCodecContext_extradata_sync(context), FLAC_INFO)
      this.header = [Buffer.from('fLaC'), Uint8Array.of(0x80, 0, 0, FLAC_INFO), info]
    }
    if (!opus) return
    lib.mkstreamwriterdev_sync(this.file)
    this.ogg = lib.ff_init_muxer_sync(
      { format_name: 'ogg', filename: this.file, open: true }, [[context, 1, this.clock]])
    lib.AVFormatContext_flags_s_sync(this.ogg[0], BITEXACT)
    lib.avformat_write_header_sync(this.ogg[0], 0)
    lib.avio_flush_sync(this.ogg[2])
    this.header = written.splice(0)
  }

  encode (samples: Float32Array): Encoded {
    const clean = clipped(samples)
    return this.write(this.resampler?.push(clean) ?? clean, false)
  }

  /** The time of the last packet trims the padding, which AAC cannot express. */
  finish (): Encoded {
    const rest = this.resampler?.finish() ?? new Float32Array()
    return this.write(this.samples + this.held.length + rest.length === 0 ? new Float32Array(1) : rest, true)
  }

  close (): void {
    const [, context, frame, packet] = this.encoder
    this.lib.ff_free_encoder_sync(context, frame, packet)
    if (this.ogg === undefined) return
    this.lib.ff_free_muxer_sync(this.ogg[0], this.ogg[2])
    this.lib.unlink_sync(this.file)
  }

  private write (samples: Float32Array, fin: boolean): Encoded {
    const [, context, frame, packet] = this.encoder
    const packets = this.lib.ff_encode_multi_sync(context, frame, packet, this.frames(samples, fin), fin)
      .filter(({ data }) => data.length > 0)
    if (packets.length === 0) return { bytes: new Uint8Array(), seconds: 0 }
    const before = this.end
    const { pts = 0, duration = 0 } = packets.at(-1)!
    this.end = this.encoding === 'aac' ? before + packets.length * ADTS_FRAME : Math.max(0, pts + duration)
    const parts = this.ogg === undefined
      ? packets.map(({ data }) => this.encoding === 'aac' ? adtsFrame(data, this.rate) : data)
      : this.pages(this.ogg, packets, fin)
    const bytes = Buffer.concat([...this.header.splice(0), ...parts])
    return { bytes, seconds: (this.end - before) / this.clock }
  }

  /** Cuts `samples`, after those that are held, into frames. */
  private frames (samples: Float32Array, fin: boolean): Frame[] {
    const size = this.encoder[4]
    const { format } = CODECS[this.encoding]
    const input = joined(this.held, samples)
    const frames: Frame[] = []
    let at = 0
    for (; at + (fin ? 0 : size) < input.length; at += size) {
      const part = input.subarray(at, at + size)
      frames.push({
        data: format === INTEGERS ? toInt16(part) : format === PLANES ? [part] : part, format,
        channels: 1, channel_layout: MONO, sample_rate: this.rate, nb_samples: part.length,
        pts: this.samples * this.clock / this.rate, ptshi: 0
      })
      this.samples += part.length
    }
    this.held = input.slice(at)
    return frames
  }

  private pages (
    [context, , io]: ReturnType<Lib['ff_init_muxer_sync']>, packets: Packet[], fin: boolean
  ): Uint8Array[] {
    this.lib.ff_write_multi_sync(context, this.encoder[3], packets, false)
    // Without a packet, the muxer completes the page.
    if (fin) this.lib.av_write_trailer_sync(context)
    else this.lib.av_write_frame_sync(context, 0)
    this.lib.avio_flush_sync(io)
    return written.splice(0)
  }
}

/** A frame of AAC-LC in mono, without a checksum (ISO 14496-3, 1.A.2.2). */
function adtsFrame (data: Uint8Array, rate: number): Uint8Array {
  const length = data.length + 7
  return Uint8Array.of(0xff, 0xf1, 0x40 | ADTS_RATES.indexOf(rate) << 2, 0x40 | length >> 11, length >> 3,
    length << 5 | 0x1f, 0xfc, ...data)
}
