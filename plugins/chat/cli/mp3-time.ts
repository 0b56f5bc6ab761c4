/** Bit rates of layer III in kbit/s, by the index in the header; 0 is none. */
const RATES_1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0]
const RATES_2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0]
/** Samples per second of MPEG 1, by the index in the header. */
const SAMPLING = [44_100, 48_000, 32_000, 0]
/** MPEG 2.5, none, 2 and 1: what their samples per second are divided by. */
const DIVISORS = [4, 0, 2, 1]

interface Frame { bytes: number, seconds: number }

/** Length and time of the frame whose header begins at `at`; null where no header of MPEG layer III is. */
function frameAt (bytes: Uint8Array, at: number): Frame | null {
  const [a = 0, b = 0, c = 0] = bytes.subarray(at, at + 3)
  const divisor = DIVISORS[(b >> 3) & 3]!
  if (a !== 0xff || (b & 0xe0) !== 0xe0 || ((b >> 1) & 3) !== 1 || divisor === 0) return null
  const bits = (divisor === 1 ? RATES_1 : RATES_2)[c >> 4]! * 1000
  const sampling = SAMPLING[(c >> 2) & 3]! / divisor
  if (bits === 0 || sampling === 0) return null
  const samples = divisor === 1 ? 1152 : 576
  const padding = (c >> 1) & 1
  return { bytes: Math.floor(samples / 8 * bits / sampling) + padding, seconds: samples / sampling }
}

/** Adds up the time of an MP3 stream by its frames, wherever it is cut. What is no frame counts nothing. */
export class Mp3Time {
  /** Time of the whole frames so far. */
  seconds = 0
  #rest: Uint8Array = new Uint8Array(0)

  add (part: Uint8Array): void {
    const bytes = Buffer.concat([this.#rest, part])
    let at = 0
    while (at + 3 <= bytes.length) {
      const frame = frameAt(bytes, at)
      if (frame !== null && at + frame.bytes > bytes.length) break
      this.seconds += frame?.seconds ?? 0
      at += frame?.bytes ?? 1
    }
    this.#rest = bytes.subarray(at)
  }
}
