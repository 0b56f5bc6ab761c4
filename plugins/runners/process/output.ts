import type { Clock } from '../../../kernel/index.js'
import { RateMeter, type RunnerLimits } from './limits.js'
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

export interface Listening { line (text: string): void, dropped (lines: number): void }

/**
 * Drains a runner's stdout or stderr into the ring file. Output is never parsed as a message. Returns a
 * function that stops the reports about dropped lines.
 */
export function drain (
  stream: Readable, name: string, ring: RingFile, clock: Clock,
  limits: Pick<RunnerLimits, 'lineChars' | 'linesPerSecond'>, listener: Listening
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

/**
 * Splits raw output into lines: cuts lines at `lineChars` and keeps at most `linesPerSecond`; lines beyond
 * that are only counted. Times are monotonic ms. The cost is linear in the bytes.
 */
export class LineLimiter {
  readonly #lineChars: number
  readonly #meter: RateMeter
  readonly #decoder = new StringDecoder('utf8')
  /** The start of a line whose end has not arrived. */
  #rest = ''
  #dropped = 0

  constructor (limits: { lineChars: number, linesPerSecond: number }) {
    this.#lineChars = limits.lineChars
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
    const lines = (this.#rest + this.#decoder.write(bytes)).split('\n')
    const rest = lines.pop()!
    // Keep no part of a line that may be dropped, so that a flood costs little.
    if (this.#meter.full(nowMs)) {
      this.#dropped += lines.length
      this.#rest = ''
      return []
    }
    const cut = Math.floor(Math.max(rest.length - 1, 0) / this.#lineChars) * this.#lineChars
    this.#rest = rest.slice(cut)
    return this.#admit(cut === 0 ? lines : [...lines, rest.slice(0, cut)], nowMs)
  }

  end (nowMs: number): string[] {
    const rest = this.#rest + this.#decoder.end()
    this.#rest = ''
    return this.#admit(rest === '' ? [] : [rest], nowMs)
  }

  #admit (lines: readonly string[], nowMs: number): string[] {
    const pieces = lines.flatMap((line) => Array.from(
      { length: Math.max(1, Math.ceil(line.length / this.#lineChars)) },
      (_, i) => line.slice(i * this.#lineChars, (i + 1) * this.#lineChars)))
    const admitted = pieces.filter(() => this.#meter.admit(nowMs))
    this.#dropped += pieces.length - admitted.length
    return admitted
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
      try { await this.#write(Buffer.from(lines.join(''))) } catch { this.lost += lines.length }
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
