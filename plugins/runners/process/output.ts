import type { Clock } from '../../../kernel/index.js'
import { RateMeter } from './limits.js'
import type { RunnerLimits } from './limits.js'
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { appendFile, rename, stat } from 'node:fs/promises'

/**
 * Milliseconds between two reads (64 KiB each) of a flood of output, which drains about 30 MB/s without
 * blocking the node's event loop.
 */
const FLOOD_REST_MS = 2
/** Interval in ms between log entries that report how many lines were dropped. */
const REPORT_MS = 1_000

export interface Listening {
  line (text: string): void
  dropped (lines: number): void
}

/**
 * Drains a runner's stdout or stderr into the ring file. Output is never parsed as a message. Returns a
 * function that stops the reports about dropped lines.
 */
export function drain (
  stream: Readable, name: string, ring: RingFile, clock: Clock,
  limits: Pick<RunnerLimits, 'lineBytes' | 'linesPerSecond'>, listener: Listening
): () => void {
  const limiter = new LineLimiter(limits)
  const write = (text: string): void => {
    ring.line(`${new Date(clock.now()).toISOString()} ${name} ${text}`)
    listener.line(text)
  }
  const keep = (lines: string[]): void => { lines.forEach(write) }
  const report = (): void => {
    const dropped = limiter.takeDropped()
    if (dropped === 0) return
    write(`[${dropped} lines dropped: too many per second]`)
    listener.dropped(dropped)
  }
  stream.on('data', (bytes: Buffer) => {
    const now = clock.mono()
    keep(limiter.push(bytes, now))
    if (!limiter.flooded(now)) return
    stream.pause()
    clock.after(FLOOD_REST_MS, () => { stream.resume() })
  })
  stream.on('end', () => { keep(limiter.end(clock.mono())) })
  stream.on('error', () => {})
  const stop = clock.every(REPORT_MS, report)
  return () => { stop(); report() }
}

const NEWLINE = 10

/**
 * Splits raw output into lines: cuts lines at `lineBytes` and keeps at most `linesPerSecond`; lines beyond
 * that are only counted. Times are monotonic ms. The cost is linear in the bytes.
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

  /** Number of lines dropped since the last call. */
  takeDropped (): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  flooded (nowMs: number): boolean { return this.#meter.full(nowMs) }

  push (bytes: Buffer, nowMs: number): string[] {
    const lines: string[] = []
    let start = 0
    while (start < bytes.length) {
      if (this.#meter.full(nowMs)) {
        this.#drop(bytes, start)
        break
      }
      const free = this.#lineBytes - this.#heldBytes
      const newline = bytes.indexOf(NEWLINE, start)
      const complete = newline !== -1 && newline - start <= free
      if (!complete && bytes.length - start <= free) {
        this.#hold(bytes.subarray(start))
        break
      }
      const end = complete ? newline : start + free
      this.#emit(bytes.subarray(start, end), nowMs, lines)
      start = complete ? end + 1 : end
    }
    return lines
  }

  end (nowMs: number): string[] {
    const lines: string[] = []
    if (this.#heldBytes > 0) this.#emit(Buffer.alloc(0), nowMs, lines)
    return lines
  }

  #hold (bytes: Buffer): void {
    // Copied, so that a partial line does not keep the whole read buffer alive.
    this.#held.push(Buffer.from(bytes))
    this.#heldBytes += bytes.length
  }

  /** Above the rate limit only counts newlines, which costs a tenth of splitting the output into lines. */
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

/** Limit on text that waits for a slow disk; beyond it, lines are dropped to bound memory. */
const MAX_PENDING = 512 * 1024

/**
 * A log file of bounded size: when it is half full, it becomes `<path>.1` and a new file begins. Writing
 * never throws; lines that cannot be written are counted in `lost`.
 */
export class RingFile {
  readonly #path: string
  readonly #halfBytes: number
  #pending: string[] = []
  #pendingBytes = 0
  #written = -1
  #busy: Promise<void> | null = null
  lost = 0

  constructor (path: string, maxBytes: number) {
    this.#path = path
    this.#halfBytes = Math.max(1, Math.floor(maxBytes / 2))
  }

  line (text: string): void {
    if (this.#pendingBytes > MAX_PENDING) {
      this.lost += 1
      return
    }
    this.#pending.push(`${text}\n`)
    this.#pendingBytes += text.length + 1
    this.#busy ??= this.#writeAll()
  }

  async flushed (): Promise<void> {
    while (this.#busy !== null) await this.#busy
  }

  async #writeAll (): Promise<void> {
    while (this.#pending.length > 0) {
      const lines = this.#pending
      this.#pending = []
      this.#pendingBytes = 0
      try {
        await this.#write(Buffer.from(lines.join('')))
      } catch {
        this.lost += lines.length
      }
    }
    this.#busy = null
  }

  async #write (bytes: Buffer): Promise<void> {
    if (this.#written < 0) this.#written = await sizeOf(this.#path)
    if (this.#written > 0 && this.#written + bytes.length > this.#halfBytes) {
      await rename(this.#path, `${this.#path}.1`)
      this.#written = 0
    }
    await appendFile(this.#path, bytes, { mode: 0o600 })
    this.#written += bytes.length
  }
}

async function sizeOf (path: string): Promise<number> {
  return await stat(path).then((found) => found.size, () => 0)
}
