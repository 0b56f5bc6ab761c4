/** Sizes and durations of MPEG layer III frames (ISO 11172-3, 13818-3 and the 2.5 extension). */

/** An MP3 frame; `size` is in bytes and includes the header. */
export interface Mp3Frame {
  size: number
  sampleRate: number
  /** Samples per channel: 1152, or 576 at low sampling rates. */
  samples: number
  kbps: number
}

const HEADER_BYTES = 4
/** Sampling rates by version bits: 0 is MPEG 2.5, 2 is MPEG 2, 3 is MPEG 1. */
const RATES: Record<number, number[]> = {
  0: [11_025, 12_000, 8_000],
  2: [22_050, 24_000, 16_000],
  3: [44_100, 48_000, 32_000]
}
const KBPS_MPEG1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
const KBPS_LSF = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]

/** The frame at `offset`, whose body may be incomplete; undefined if no header is there. */
export function readFrame (bytes: Uint8Array, offset: number): Mp3Frame | undefined {
  const [b0 = 0, b1 = 0, b2 = 0] = bytes.subarray(offset, offset + HEADER_BYTES)
  if (offset + HEADER_BYTES > bytes.length || b0 !== 0xff || (b1 & 0xe6) !== 0xe2) return undefined
  const version = (b1 >> 3) & 3
  const sampleRate = RATES[version]?.[(b2 >> 2) & 3]
  const kbps = (version === 3 ? KBPS_MPEG1 : KBPS_LSF)[b2 >> 4]
  if (sampleRate === undefined || kbps === undefined || kbps === 0) return undefined
  const samples = version === 3 ? 1152 : 576
  const size = Math.floor(samples / 8 * kbps * 1000 / sampleRate) + ((b2 >> 1) & 1)
  return { size, sampleRate, samples, kbps }
}

/** Sums the duration of an MP3 stream whose chunks may split frames; skips bytes outside frames. */
export class Mp3Time {
  seconds = 0
  #rest: Uint8Array = new Uint8Array(0)

  add (part: Uint8Array): void {
    const bytes = Buffer.concat([this.#rest, part])
    let at = 0
    while (at + HEADER_BYTES <= bytes.length) {
      const frame = readFrame(bytes, at)
      if (frame !== undefined && at + frame.size > bytes.length) break
      if (frame !== undefined) this.seconds += frame.samples / frame.sampleRate
      at += frame?.size ?? 1
    }
    this.#rest = bytes.subarray(at)
  }
}
