/** Resamples a stream with a polyphase windowed-sinc filter. */

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
