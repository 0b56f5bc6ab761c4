import { delay, untilCalled } from '../../kernel/index.js'
import { COMMENT_MS, TICK_MS } from './limits.js'
import { shown } from './page.js'
import { openReader } from './reader.js'
import type { Clock, StreamWriter } from '../../kernel/index.js'
import type { EventLog } from './log.js'
import type { Query } from './query.js'
import type { Read, Reader } from './reader.js'
import type { EventStore } from './store/types.js'

/** Steps taken from the log before they are written. */
const BATCH = 100

export interface FollowOptions {
  log: EventLog
  store: EventStore
  clock: Clock
  query: Query
  /** Aborts when the reader goes or the node stops. */
  signal: AbortSignal
  /** Where to begin: behind this index. */
  since: number
  /** True for an index that cannot be of this log, but of one that ended with its cluster. */
  foreign: (idx: number) => boolean
}

/**
 * Writes the log as server-sent events until the reader goes or the node stops. A slow reader waits in its
 * own write; the log does not wait for it. An idle stream gets a comment now and then.
 */
export async function follow (stream: StreamWriter, options: FollowOptions): Promise<void> {
  const { log, clock, query, signal } = options
  let reader = openReader(log, options.since)
  let wroteAt = clock.mono()
  const write = async (text: string): Promise<void> => {
    await stream.write(text)
    wroteAt = clock.mono()
  }
  try {
    await write(': following\n\n')
    while (!signal.aborted && !stream.closed) {
      if (options.foreign(reader.position)) {
        reader.close()
        reader = openReader(log, log.base.idx)
      }
      const steps = await next(reader, options)
      const text = (steps ?? []).map((step) => frame(step, query)).join('')
      if (text !== '') await write(text)
      else if (clock.mono() - wroteAt >= COMMENT_MS) await write(': keep-alive\n\n')
      else if (steps === null) await delay(clock, TICK_MS, signal).catch(() => {})
      else if (steps.length === 0 && reader.behind === null) {
        await untilCalled((fn) => log.onChange(fn), signal, { clock, ms: TICK_MS })
      }
    }
  } finally {
    reader.close()
  }
}

/** The next steps; null when the disk does not give them now. They are waited for: none is left out. */
async function next (reader: Reader, { store }: FollowOptions): Promise<Read[] | null> {
  const span = reader.behind
  if (span === null) return reader.take(BATCH)
  try {
    const entries = await store.read({ ...span, limit: BATCH })
    return reader.older(span, entries, entries.length < BATCH)
  } catch {
    return null
  }
}

function frame (step: Read, query: Query): string {
  if (step.type === 'gap') return `event: gap\ndata: ${JSON.stringify({ from: step.from, to: step.to })}\n\n`
  if (!query.wants(step.entry)) return ''
  // Last-Event-ID never goes back: an event with a smaller index than one before comes without an id.
  const id = step.rising ? `id: ${step.entry.idx}\n` : ''
  return `${id}data: ${JSON.stringify(shown(step.entry))}\n\n`
}
