import { LineLimiter } from './lines.js'
import type { Clock } from '../../../kernel/index.js'
import type { RunnerLimits } from './limits.js'
import type { RingFile } from './ring.js'
import type { Readable } from 'node:stream'

/**
 * Rest between two reads (64 KiB each) of a flood: it is still drained, at 30 MB/s or so, and costs the
 * node neither its event loop nor its memory.
 */
const FLOOD_REST_MS = 2
/** How often a count of dropped lines is written into the log. */
const REPORT_MS = 1_000

/** What hears of a runner's output: each line that is kept, and how many lines were too many. */
export interface Listening {
  line (text: string): void
  dropped (lines: number): void
}

/**
 * Reads a runner's stdout or stderr for as long as it lives, whatever comes, into the ring file. Nothing
 * in it is ever taken for a message. Returns what stops the reports of dropped lines.
 */
export function drain (
  stream: Readable, name: string, ring: RingFile, clock: Clock,
  limits: Pick<RunnerLimits, 'lineBytes' | 'linesPerSecond'>, heard: Listening
): () => void {
  const limiter = new LineLimiter(limits)
  const write = (text: string): void => {
    ring.line(`${new Date(clock.now()).toISOString()} ${name} ${text}`)
    heard.line(text)
  }
  const keep = (lines: string[]): void => { lines.forEach(write) }
  const report = (): void => {
    const dropped = limiter.takeDropped()
    if (dropped === 0) return
    write(`[${dropped} lines dropped: too many per second]`)
    heard.dropped(dropped)
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
