/**
 * Encodes samples: MP3 by lamejs (mono, constant bit rate, no tag frames, no bit reservoir, so that every
 * frame is independent), and 16-bit PCM with or without a WAV header. `libav.ts` has Opus, AAC and FLAC.
 */
// @ts-expect-error -- the package declares its types under the name it had before it was aliased
import { Mp3Encoder } from 'lamejs'
import { EngineError } from '../../../kernel/api/engine.js'
import { toInt16, type AudioEncoder, type Encoded } from './samples.js'

export const ENCODINGS = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'] as const
export type Encoding = typeof ENCODINGS[number]

/** Loads FFmpeg on demand. @throws EngineError format_unsupported if MP3 or AAC lacks the rate */
export async function createEncoder (encoding: Encoding, sampleRate: number): Promise<AudioEncoder> {
  switch (encoding) {
    case 'mp3':
      requireRate('MP3', sampleRate, MP3_RATES)
      return new Mp3Stream(sampleRate, KBPS.get(sampleRate)!)
    case 'opus': case 'aac': case 'flac': {
      const { AAC_RATES, openLibav } = await import('./libav.js')
      if (encoding === 'aac') requireRate('AAC', sampleRate, AAC_RATES)
      return await openLibav(encoding, sampleRate)
    }
    default:
      return new PcmStream(sampleRate, encoding === 'wav')
  }
}

function requireRate (format: string, sampleRate: number, rates: readonly number[]): void {
  if (rates.includes(sampleRate)) return
  const message = `this voice has ${sampleRate} Hz, but ${format} supports only ${rates.join(', ')} Hz: ` +
    'request opus, flac, wav or pcm'
  throw new EngineError('format_unsupported', message, { param: 'response_format' })
}

interface LameEncoder {
  encodeBuffer (left: Int16Array): Int8Array | Uint8Array
  flush (): Int8Array | Uint8Array
}
const Lame = Mp3Encoder as new (channels: number, sampleRate: number, kbps: number) => LameEncoder

/** MP3 bit rate by sampling rate in Hz, high enough for a single voice. */
const KBPS = new Map([
  [8_000, 24], [11_025, 32], [12_000, 32], [16_000, 48], [22_050, 64], [24_000, 64],
  [32_000, 96], [44_100, 112], [48_000, 112]
])

/** The nine sampling rates of MPEG-1, 2 and 2.5, in Hz. */
export const MP3_RATES = [...KBPS.keys()]

// Samples per call (about a second), so that lamejs's input buffer stays small.
const PIECE = 16_384

class Mp3Stream implements AudioEncoder {
  private readonly lame: LameEncoder
  private readonly kbps: number

  constructor (sampleRate: number, kbps: number) {
    this.lame = new Lame(1, sampleRate, kbps)
    this.kbps = kbps
  }

  encode (samples: Float32Array): Encoded {
    const pcm = toInt16(samples)
    const parts: Uint8Array[] = []
    for (let at = 0; at < pcm.length; at += PIECE) {
      parts.push(copyOf(this.lame.encodeBuffer(pcm.subarray(at, at + PIECE))))
    }
    return this.measured(Buffer.concat(parts))
  }

  /** Pads the last frame; the stream is longer by the codec's delay (1105 samples). */
  finish (): Encoded { return this.measured(copyOf(this.lame.flush())) }

  /** The bit rate is constant: a frame is at most one byte longer than its time. */
  private measured (bytes: Uint8Array): Encoded {
    return { bytes, seconds: bytes.length / (this.kbps * 125) }
  }
}

/** Copies lamejs's output, because lamejs reuses the buffer. */
function copyOf (view: Int8Array | Uint8Array): Uint8Array {
  return Uint8Array.from(new Uint8Array(view.buffer, view.byteOffset, view.length))
}

/** A WAV header for mono 16-bit sound of unknown length: both sizes are 0xFFFFFFFF. */
function wavHeader (sampleRate: number): Uint8Array {
  const header = Buffer.alloc(44)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(0xffffffff, 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(sampleRate, 24)
  header.writeUInt32LE(sampleRate * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(0xffffffff, 40)
  return header
}

class PcmStream implements AudioEncoder {
  private readonly sampleRate: number
  private header: Uint8Array
  /** The last sample, withheld so that `finish` never returns an empty chunk. */
  private held: Int16Array = new Int16Array()

  constructor (sampleRate: number, wav: boolean) {
    this.sampleRate = sampleRate
    this.header = wav ? wavHeader(sampleRate) : new Uint8Array()
  }

  encode (samples: Float32Array): Encoded {
    if (samples.length === 0) return { bytes: new Uint8Array(), seconds: 0 }
    const pcm = toInt16(samples)
    const out = this.write([this.held, pcm.subarray(0, -1)])
    this.held = pcm.slice(-1)
    return out
  }

  finish (): Encoded { return this.write([this.held.length === 0 ? new Int16Array(1) : this.held]) }

  private write (parts: Int16Array[]): Encoded {
    const count = parts.reduce((sum, part) => sum + part.length, 0)
    const bytes = Buffer.alloc(this.header.length + count * 2)
    bytes.set(this.header)
    let at = this.header.length
    for (const part of parts) for (const v of part) at = bytes.writeInt16LE(v, at)
    this.header = new Uint8Array()
    return { bytes, seconds: count / this.sampleRate }
  }
}
