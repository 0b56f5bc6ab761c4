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

/** Events that are read and written to the stream at once. */
const BATCH = 100

export interface FollowOptions {
  log: EventLog
  store: EventStore
  clock: Clock
  query: Query
  /** Aborts when the reader goes or the node stops. */
  signal: AbortSignal
  /** The stream begins after this index. */
  since: number
  /** True for an index above all of this log: the client has it from a cluster that no longer exists. */
  foreign: (idx: number) => boolean
}

/**
 * Writes the log as server-sent events until the client goes or the node stops. A slow client holds up only
 * its own stream. An idle stream gets a comment every 10 s.
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

/** The next steps; null when the disk does not answer. The caller tries again: nothing is left out. */
async function next (reader: Reader, source: Pick<Source, 'log' | 'store'>): Promise<Read[] | null> {
  const { position, cuts } = reader
  const base = source.log.base.idx
  try {
    const entries = await readLog(source, { after: position, limit: BATCH })
    // A page that was read while the log was cut may hold entries that are gone.
    return reader.cuts === cuts ? reader.steps(entries, entries.length < BATCH ? base : 0) : []
  } catch {
    return null
  }
}

function frame (step: Read, query: Query): string {
  if (step.type === 'gap') return `event: gap\ndata: ${JSON.stringify({ from: step.from, to: step.to })}\n\n`
  if (!query.wants(step.entry)) return ''
  // Last-Event-ID must never go back: an event with a smaller index than one before is sent without an id.
  const id = step.rising ? `id: ${step.entry.idx}\n` : ''
  return `${id}data: ${JSON.stringify(shown(step.entry))}\n\n`
}

/** What a reader gets next. */
export type Read =
  /** `rising`: its index is above all before. False after the log's tail was replaced by another master's. */
  | { readonly type: 'entry', readonly entry: Entry, readonly rising: boolean }
  /** The events with these indices are not kept on this node. */
  | { readonly type: 'gap', readonly from: number, readonly to: number }

/** Follows the log through cuts and gaps. */
export interface Reader {
  /** Everything up to this index has been read. */
  readonly position: number
  /** How often the log was cut. */
  readonly cuts: number
  /**
   * Takes the entries that were read after the position. `whole`: up to this index there are no others, so
   * what is missing up to there is a gap.
   */
  steps (entries: readonly Entry[], whole: number): Read[]
  close (): void
}

/**
 * A reader that begins after index `since`. It skips nothing and gives nothing twice, also when the tail of
 * the log is replaced by that of another master: the events of the new tail follow, and an event that was
 * read before and comes back with another index does not.
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
  /** A gap up to that index, without what was read before the tail was replaced. */
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
