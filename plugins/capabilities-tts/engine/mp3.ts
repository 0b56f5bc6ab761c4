/**
 * MP3 through lamejs: mono, constant bit rate, no tag frames, no bit reservoir, so every frame stands alone.
 */
// @ts-expect-error -- the package declares its types under the name it had before it was aliased
import { Mp3Encoder } from 'lamejs'
import { toInt16, type AudioEncoder, type Encoded } from './audio.js'
import { framesSeconds, walkFrames } from '../mp3-frames.js'

interface LameEncoder {
  encodeBuffer (left: Int16Array): Int8Array | Uint8Array
  flush (): Int8Array | Uint8Array
}
const Lame = Mp3Encoder as new (channels: number, sampleRate: number, kbps: number) => LameEncoder

/** Bit rate by sampling rate: transparent enough for one voice (the low rates end at 160 kbps). */
const KBPS = new Map([
  [8_000, 24], [11_025, 32], [12_000, 32], [16_000, 48], [22_050, 64], [24_000, 64],
  [32_000, 96], [44_100, 112], [48_000, 112]
])

/** The nine sampling rates of MPEG-1, 2 and 2.5, in Hz. */
export const MP3_RATES = [...KBPS.keys()]

// A whole second at a time keeps lamejs's input buffer small.
const PIECE = 16_384

/** One MP3 stream. The sampling rate is passed through. */
export class Mp3Stream implements AudioEncoder {
  private readonly lame: LameEncoder

  constructor (sampleRate: number) {
    this.lame = new Lame(1, sampleRate, KBPS.get(sampleRate) ?? 64)
  }

  encode (samples: Float32Array): Encoded {
    const pcm = toInt16(samples)
    const parts: Uint8Array[] = []
    for (let at = 0; at < pcm.length; at += PIECE) {
      parts.push(asBytes(this.lame.encodeBuffer(pcm.subarray(at, at + PIECE))))
    }
    return measured(Buffer.concat(parts))
  }

  /** Pads the last frame and adds the encoder's delay (1105 samples with that of a decoder). */
  finish (): Encoded {
    return measured(asBytes(this.lame.flush()))
  }
}

// The encoder reuses its buffer and answers a view of signed bytes.
function asBytes (view: Int8Array | Uint8Array): Uint8Array {
  return Uint8Array.from(new Uint8Array(view.buffer, view.byteOffset, view.length))
}

function measured (bytes: Uint8Array): Encoded {
  return { bytes, seconds: framesSeconds(walkFrames(bytes).frames) }
}
