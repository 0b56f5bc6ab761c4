/**
 * Walks MPEG audio layer III frames (ISO 11172-3, 13818-3 and the 2.5 extension): sizes and durations only.
 */

/** One frame: where it lies and how much sound it holds. */
export interface Mp3Frame {
  offset: number
  /** Bytes, header included. */
  size: number
  sampleRate: number
  /** Samples per channel: 1152, or 576 at the low sampling rates. */
  samples: number
  kbps: number
  mono: boolean
}

const HEADER_BYTES = 4
/** Sampling rates per version bits: 0 = 2.5, 2 = 2, 3 = 1. */
const RATES: Record<number, number[]> = {
  0: [11_025, 12_000, 8_000],
  2: [22_050, 24_000, 16_000],
  3: [44_100, 48_000, 32_000]
}
const KBPS_MPEG1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
const KBPS_LSF = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]

/** The frame whose header starts at `offset`, or undefined where there is none (its body may be cut off). */
export function readFrame (bytes: Uint8Array, offset: number): Mp3Frame | undefined {
  const [b0 = 0, b1 = 0, b2 = 0, b3 = 0] = bytes.subarray(offset, offset + HEADER_BYTES)
  if (offset + HEADER_BYTES > bytes.length || b0 !== 0xff || (b1 & 0xe6) !== 0xe2) return undefined
  const version = (b1 >> 3) & 3
  const sampleRate = RATES[version]?.[(b2 >> 2) & 3]
  const kbps = (version === 3 ? KBPS_MPEG1 : KBPS_LSF)[b2 >> 4]
  if (sampleRate === undefined || kbps === undefined || kbps === 0) return undefined
  const samples = version === 3 ? 1152 : 576
  const size = Math.floor(samples / 8 * kbps * 1000 / sampleRate) + ((b2 >> 1) & 1)
  return { offset, size, sampleRate, samples, kbps, mono: b3 >> 6 === 3 }
}

/**
 * All whole frames from the start of `bytes`. `rest` is the number of bytes behind the last whole frame:
 * 0 says that the bytes are frames and nothing else.
 */
export function walkFrames (bytes: Uint8Array): { frames: Mp3Frame[], rest: number } {
  const frames: Mp3Frame[] = []
  let offset = 0
  for (;;) {
    const frame = readFrame(bytes, offset)
    const rest = bytes.length - offset
    if (frame === undefined || frame.size > rest) return { frames, rest }
    frames.push(frame)
    offset += frame.size
  }
}

/** Seconds of sound in whole frames. */
export function framesSeconds (frames: Mp3Frame[]): number {
  return frames.reduce((sum, frame) => sum + frame.samples / frame.sampleRate, 0)
}

/** Adds up the time of an MP3 stream by its frames, wherever it is cut. What is no frame counts nothing. */
export class Mp3Time {
  /** Time of the whole frames so far. */
  seconds = 0
  #rest: Uint8Array = new Uint8Array(0)

  add (part: Uint8Array): void {
    const bytes = Buffer.concat([this.#rest, part])
    let at = 0
    while (at + HEADER_BYTES <= bytes.length) {
      const frame = readFrame(bytes, at)
      if (frame !== undefined && at + frame.size > bytes.length) break
      this.seconds += frame === undefined ? 0 : framesSeconds([frame])
      at += frame?.size ?? 1
    }
    this.#rest = bytes.subarray(at)
  }
}
