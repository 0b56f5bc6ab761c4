import { StringDecoder } from 'node:string_decoder'
import { RateMeter } from './meter.js'

const NEWLINE = 10

/**
 * Turns raw output into lines: split at `lineBytes`, at most `linesPerSecond`, the rest only counted.
 * Time is an argument (monotonic milliseconds). Cost is linear in the bytes, whatever they are.
 */
export class LineLimiter {
  readonly #lineBytes: number
  readonly #meter: RateMeter
  #decoder = new StringDecoder('utf8')
  #held: Buffer[] = []
  #heldBytes = 0
  #dropped = 0

  constructor (limits: { lineBytes: number, linesPerSecond: number }) {
    this.#lineBytes = limits.lineBytes
    this.#meter = new RateMeter(limits.linesPerSecond)
  }

  /** Lines dropped since the last `takeDropped`. */
  takeDropped (): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  /** True while lines are only counted. */
  flooded (nowMs: number): boolean { return this.#meter.full(nowMs) }

  push (bytes: Buffer, nowMs: number): string[] {
    const lines: string[] = []
    let start = 0
    while (start < bytes.length) {
      if (this.#meter.full(nowMs)) {
        this.#drop(bytes, start)
        break
      }
      const room = this.#lineBytes - this.#heldBytes
      const newline = bytes.indexOf(NEWLINE, start)
      const whole = newline !== -1 && newline - start <= room
      if (!whole && bytes.length - start <= room) {
        this.#hold(bytes.subarray(start))
        break
      }
      const end = whole ? newline : start + room
      this.#emit(bytes.subarray(start, end), nowMs, lines)
      start = whole ? end + 1 : end
    }
    return lines
  }

  /** The last line when it had no newline. */
  end (nowMs: number): string[] {
    const lines: string[] = []
    if (this.#heldBytes > 0) this.#emit(Buffer.alloc(0), nowMs, lines)
    return lines
  }

  #hold (bytes: Buffer): void {
    // A copy: the rest of a line must not keep the whole read buffer alive.
    this.#held.push(Buffer.from(bytes))
    this.#heldBytes += bytes.length
  }

  /** Beyond the rate only newlines are counted: a plain loop costs a tenth of cutting lines. */
  #drop (bytes: Buffer, start: number): void {
    for (let i = start; i < bytes.length; i++) {
      if (bytes[i] === NEWLINE) this.#dropped += 1
    }
    this.#held = []
    this.#heldBytes = 0
  }

  #emit (last: Buffer, nowMs: number, lines: string[]): void {
    if (this.#meter.admit(nowMs)) {
      const text = this.#held.map((piece) => this.#decoder.write(piece)).join('') + this.#decoder.write(last)
      lines.push(text + this.#decoder.end())
    } else {
      this.#dropped += 1
    }
    this.#held = []
    this.#heldBytes = 0
  }
}
