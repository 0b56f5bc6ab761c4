import { LineLimiter } from './lines.js'
import type { Clock } from '../../../kernel/clock.js'
import type { RunnerLimits } from './limits.js'
import type { RingFile } from './ring.js'
import type { Readable } from 'node:stream'

/** How often a count of dropped lines is written into the log. */
const REPORT_MS = 1_000

/**
 * Reads a runner's stdout or stderr for as long as it lives, whatever comes, into the ring file. Nothing
 * in it is ever taken for a message. `onDropped` hears how many lines were too many. Returns what stops
 * the reports.
 */
export function drain (
  stream: Readable, name: string, ring: RingFile, clock: Clock,
  limits: Pick<RunnerLimits, 'lineBytes' | 'linesPerSecond'>, onDropped: (lines: number) => void
): () => void {
  const limiter = new LineLimiter(limits)
  const keep = (lines: string[]): void => {
    for (const line of lines) ring.line(`${new Date(clock.now()).toISOString()} ${name} ${line}`)
  }
  const report = (): void => {
    const dropped = limiter.takeDropped()
    if (dropped === 0) return
    ring.line(`${new Date(clock.now()).toISOString()} ${name} [${dropped} lines dropped: too many per second]`)
    onDropped(dropped)
  }
  stream.on('data', (bytes: Buffer) => { keep(limiter.push(bytes, clock.mono())) })
  stream.on('end', () => { keep(limiter.end(clock.mono())) })
  stream.on('error', () => {})
  const stop = clock.every(REPORT_MS, report)
  return () => { stop(); report() }
}
