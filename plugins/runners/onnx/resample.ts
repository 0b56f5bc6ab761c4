/** Resampling by a windowed sinc, in pieces (J. O. Smith, Digital Audio Resampling). */

/** Input samples on each side of an output sample: at least, and per input sample that becomes one. */
const REACH = 24
const DOWN_REACH = 16
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
  /** Input samples on each side of an output sample; even. */
  private readonly reach: number
  /** `up` filters of 2 * reach taps, one per phase between two input samples. */
  private readonly filters: Float32Array
  /** The last input samples; the first one has index `start`. */
  private held: Float32Array
  private start: number
  private next = 0
  private length = 0

  constructor (from: number, to: number) {
    const common = gcd(from, to)
    this.up = to / common
    this.down = from / common
    this.reach = 2 * Math.ceil(Math.max(REACH, DOWN_REACH * from / to) / 2)
    this.start = -this.reach
    this.held = new Float32Array(this.reach)
    const band = KEPT * Math.min(1, to / from)
    this.filters = new Float32Array(this.up * 2 * this.reach)
    for (let phase = 0; phase < this.up; phase++) {
      for (let tap = 0; tap < 2 * this.reach; tap++) {
        const distance = tap - this.reach + 1 - phase / this.up
        const weight = Math.abs(distance) < this.reach ? blackman(distance / this.reach) : 0
        this.filters[phase * 2 * this.reach + tap] = band * sinc(band * distance) * weight
      }
    }
  }

  push (samples: Float32Array): Float32Array {
    this.length += samples.length
    return this.run(samples, Math.floor(Math.max(0, this.length - this.reach) * this.up / this.down))
  }

  /** The remaining samples; the total is input samples * to / from, rounded up. */
  finish (): Float32Array {
    return this.run(new Float32Array(this.reach + 1), Math.ceil(this.length * this.up / this.down))
  }

  /** Appends input, and computes outputs up to index `end`. */
  private run (samples: Float32Array, end: number): Float32Array {
    const input = new Float32Array(this.held.length + samples.length)
    input.set(this.held)
    input.set(samples, this.held.length)
    const out = new Float32Array(Math.max(0, end - this.next))
    const { filters, reach } = this
    const taps = 2 * reach
    for (let i = 0; i < out.length; i++) {
      const at = this.next + i
      const whole = Math.floor(at * this.down / this.up)
      const filter = (at * this.down - whole * this.up) * taps
      const first = whole - reach + 1 - this.start
      // Four sums, because each addition waits for the one before it: half the time.
      let [a, b, c, d] = [0, 0, 0, 0]
      for (let tap = 0; tap < taps; tap += 4) {
        const at = first + tap
        a += filters[filter + tap]! * input[at]!
        b += filters[filter + tap + 1]! * input[at + 1]!
        c += filters[filter + tap + 2]! * input[at + 2]!
        d += filters[filter + tap + 3]! * input[at + 3]!
      }
      out[i] = a + b + c + d
    }
    this.next += out.length
    const needed = Math.floor(this.next * this.down / this.up) - reach + 1 - this.start
    const dropped = Math.min(Math.max(0, needed), input.length)
    this.held = input.slice(dropped)
    this.start += dropped
    return out
  }
}
