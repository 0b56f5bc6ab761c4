/** Sound of the Realtime API: 16-bit PCM at 24 kHz, and G.711 (ITU-T) at 8 kHz. */
import { Resampler } from '../runners/onnx/resample.js'

export type SoundFormat = 'audio/pcm' | 'audio/pcmu' | 'audio/pcma'

/** Samples per second. */
export const rateOf = (format: SoundFormat): number => format === 'audio/pcm' ? 24_000 : 8000

/** The 16-bit sample of a code of G.711. */
function levelOf (code: number, isMuLaw: boolean): number {
  const bits = isMuLaw ? ~code : code ^ 0x55
  const [exponent, step] = [(bits >> 4) & 7, bits & 15]
  const aLaw = exponent === 0 ? (step << 4) + 8 : ((step << 4) + 264) << (exponent - 1)
  const size = isMuLaw ? (((step << 3) + 132) << exponent) - 132 : aLaw
  return (bits & 128) === (isMuLaw ? 128 : 0) ? -size : size
}

const laws = new Map<SoundFormat, { levels: Int16Array, codes: Uint8Array }>()

/** Levels by code, and the code of the nearest level by sample + 32768. */
function lawOf (format: SoundFormat): { levels: Int16Array, codes: Uint8Array } {
  const known = laws.get(format)
  if (known !== undefined) return known
  const levels = Int16Array.from({ length: 256 }, (_, code) => levelOf(code, format === 'audio/pcmu'))
  const sorted = [...levels.keys()].sort((a, b) => levels[a]! - levels[b]!)
  const gap = (place: number, sample: number): number => Math.abs(levels[sorted[place]!]! - sample)
  let at = 0
  const codes = Uint8Array.from({ length: 65_536 }, (_, index) => {
    while (at < 255 && gap(at + 1, index - 32_768) <= gap(at, index - 32_768)) at++
    return sorted[at]!
  })
  laws.set(format, { levels, codes })
  return { levels, codes }
}

/** Converts sound of a client to 16-bit PCM at the same rate. */
export function toPcm (format: SoundFormat, bytes: Uint8Array): Uint8Array {
  if (format === 'audio/pcm') return bytes
  const { levels } = lawOf(format)
  return new Uint8Array(Int16Array.from(bytes, (code) => levels[code]!).buffer)
}

/** Converts 16-bit PCM at any rate to a client's format, piece by piece. */
export class SoundEncoder {
  readonly #format: SoundFormat
  readonly #resampler: Resampler | undefined

  constructor (format: SoundFormat, sampleRate: number) {
    this.#format = format
    const rate = rateOf(format)
    this.#resampler = sampleRate === rate ? undefined : new Resampler(sampleRate, rate)
  }

  push (pcm: Uint8Array): Buffer {
    // The copy aligns the samples, since a piece may start at an odd address.
    const samples = Float32Array.from(new Int16Array(pcm.slice().buffer))
    return this.#encoded(this.#resampler?.push(samples) ?? samples)
  }

  finish (): Buffer { return this.#encoded(this.#resampler?.finish() ?? new Float32Array(0)) }

  #encoded (samples: Float32Array): Buffer {
    const pcm = Int16Array.from(samples, (sample) => Math.max(-32_768, Math.min(32_767, Math.round(sample))))
    if (this.#format === 'audio/pcm') return Buffer.from(pcm.buffer)
    const { codes } = lawOf(this.#format)
    return Buffer.from(Uint8Array.from(pcm, (sample) => codes[sample + 32_768]!))
  }
}
