import { delay, untilCalled } from '../../kernel/index.js'
import { COMMENT_MS, TICK_MS } from './limits.js'
import { shown } from './page.js'
import { readLog } from './source.js'
import type { Clock, StreamWriter } from '../../kernel/index.js'
import type { Entry } from './entries.js'
import type { EventLog } from './log.js'
import type { Query } from './query.js'
import type { Source } from './source.js'
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
      else if (reader.position >= log.last.idx) {
        await untilCalled((fn) => log.onChange(fn), signal, { clock, ms: TICK_MS })
      }
    }
  } finally {
    reader.close()
  }
}

/** The next steps; null when the disk does not give them now. They are waited for: none is left out. */
async function next (reader: Reader, source: Pick<Source, 'log' | 'store'>): Promise<Read[] | null> {
  const { position, cuts } = reader
  const base = source.log.base.idx
  try {
    const entries = await readLog(source, { after: position, limit: BATCH })
    // What was read while the log was cut may be gone.
    return reader.cuts === cuts ? reader.steps(entries, entries.length < BATCH ? base : 0) : []
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

/** One step of a reader. */
export type Read =
  /** `rising`: its index is above all that were read before. It is not where the tail was replaced. */
  | { readonly type: 'entry', readonly entry: Entry, readonly rising: boolean }
  /** The indices `from` to `to` are no longer, or not yet, kept here. */
  | { readonly type: 'gap', readonly from: number, readonly to: number }

/** Reads the log as it grows. */
export interface Reader {
  /** Everything up to this index has been read. */
  readonly position: number
  /** How often the log was cut. */
  readonly cuts: number
  /**
   * The steps that these entries make, which follow the position. `whole`: up to this index there are no
   * others.
   */
  steps (entries: readonly Entry[], whole: number): Read[]
  close (): void
}

/**
 * Reads on from index `since`. Nothing is skipped and nothing is read twice, also when a tail is replaced by
 * that of another master: the events of the new tail follow, those that come back with another index do not.
 */
export function openReader (log: EventLog, since: number): Reader {
  let position = since
  let highest = since
  let cuts = 0
  const read = new Set<string>()
  const close = log.onChange((change) => {
    if (change.type !== 'cut') return
    cuts++
    for (const { id, idx } of change.entries) if (idx <= position) read.add(id)
    position = Math.min(position, change.after)
  })
  /** What lies between is gone, unless it was read before the tail was replaced. */
  const gapTo = (until: number): Read[] => {
    if (until <= position) return []
    const from = Math.max(position, highest) + 1
    position = until
    return from <= until ? [{ type: 'gap', from, to: until }] : []
  }
  const step = (entry: Entry): Read[] => {
    position = entry.idx
    const rising = entry.idx > highest
    if (rising) highest = entry.idx
    return read.delete(entry.id) ? [] : [{ type: 'entry', entry, rising }]
  }
  return {
    close,
    get position () { return position },
    get cuts () { return cuts },
    steps: (entries, whole) =>
      [...entries.flatMap((entry) => [...gapTo(entry.prev), ...step(entry)]), ...gapTo(whole)]
  }
}
