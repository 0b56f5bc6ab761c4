import { waitForCallback } from '../../kernel/index.js'
import type { Clock, LogRing, LogFilter } from '../../kernel/index.js'
import { BATCH_LINES, COMMENT_MS } from './limits.js'
import type { NodeRef, ShownLine } from './lines.js'

/** The next lines from a node's log; an empty list serves as a keep-alive. */
export interface Step {
  readonly lines: readonly ShownLine[]
  readonly lost: number
}

export interface LocalParts {
  ring: LogRing
  self: NodeRef
  clock: Clock
  want: Pick<LogFilter, 'level' | 'modelId' | 'plugin'>
  afterSeq: number
  signal: AbortSignal
}

/** Follows this node's log from a position until the signal aborts. */
export async function * localSteps (parts: LocalParts): AsyncGenerator<Step> {
  const { ring, self, want, signal, clock } = parts
  let yieldedAt = clock.mono()
  let position = Math.min(parts.afterSeq, ring.nextSeq - 1)
  while (!signal.aborted) {
    const lost = Math.max(0, ring.firstSeq - 1 - position)
    const { nextSeq } = ring
    const found = ring.lines({ ...want, afterSeq: position, limit: BATCH_LINES })
    position = found.length < BATCH_LINES ? nextSeq - 1 : found.at(-1)!.seq
    const quiet = found.length === 0 && lost === 0
    if (quiet && clock.mono() - yieldedAt < COMMENT_MS) {
      await waitForCallback((fn) => ring.onLine(fn), signal, { clock, ms: COMMENT_MS })
      continue
    }
    yield { lines: found.map((line) => ({ ...self, ...line })), lost }
    yieldedAt = clock.mono()
  }
}
