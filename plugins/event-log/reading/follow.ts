import { delay, waitForCallback, type Clock, type StreamWriter } from '../../../kernel/index.js'
import { isWanted, readLog, shown, type Source } from './page.js'
import type { Entry } from '../log/entries.js'
import type { EventLog } from '../log/log.js'
import type { Query } from './query.js'

const COMMENT_MS = 10_000

/** Interval in ms between checks while a stream waits for an event or the disk. */
const WAIT_MS = 1_000

/** Maximum events per read of the log and write to the stream. */
const BATCH = 100

export interface FollowOptions extends Source {
  clock: Clock
  query: Query
  /** Aborts when the client disconnects or the node stops. */
  signal: AbortSignal
  since: number
  /** True for an index beyond this log; a client may have it from a cluster that no longer exists. */
  foreign: (idx: number) => boolean
}

/** Writes the log as server-sent events until client or node stops; a comment every 10 s if idle. */
export async function follow (stream: StreamWriter, options: FollowOptions): Promise<void> {
  const { log, clock, query, signal } = options
  let reader = new Reader(log, options.since)
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
        reader = new Reader(log, log.base.idx)
      }
      const steps = await next(reader, options)
      const text = (steps ?? []).map((step) => frame(step, query)).join('')
      if (text !== '') await write(text)
      else if (clock.mono() - wroteAt >= COMMENT_MS) await write(': keep-alive\n\n')
      else if (steps === null) await delay(clock, WAIT_MS, signal).catch(() => {})
      else if (reader.position >= log.last.idx) {
        await waitForCallback((fn) => log.onChange(fn), signal, { clock, ms: WAIT_MS })
      }
    }
  } finally {
    reader.close()
  }
}

/** Reads the next items; null if the disk does not respond, in which case the caller can simply try again. */
async function next (reader: Reader, source: Source): Promise<FollowItem[] | null> {
  const { position, cuts } = reader
  const base = source.log.base.idx
  try {
    const entries = await readLog(source, { after: position, limit: BATCH })
    // A page that was read during a cut may contain removed entries.
    return reader.cuts === cuts ? reader.steps(entries, entries.length < BATCH ? base : 0) : []
  } catch {
    return null
  }
}

function frame (step: FollowItem, query: Query): string {
  if (step.type === 'gap') return `event: gap\ndata: ${JSON.stringify({ from: step.from, to: step.to })}\n\n`
  if (!isWanted(step.entry, query.wanted)) return ''
  // Last-Event-ID must never decrease, so an event with a smaller index than before is sent without an id.
  const id = step.rising ? `id: ${step.entry.idx}\n` : ''
  return `${id}data: ${JSON.stringify(shown(step.entry))}\n\n`
}

export type FollowItem =
  /** `rising`: the index is above all earlier ones; false after another master replaced the log's tail. */
  | { readonly type: 'entry', readonly entry: Entry, readonly rising: boolean }
  /** Events with these indices are missing on this node. */
  | { readonly type: 'gap', readonly from: number, readonly to: number }

/**
 * Follows the log across cuts and gaps without loss or repetition. If another master's log replaces the tail,
 * the reader gets the new events, but not again those that it has already read.
 */
export class Reader {
  /** Index up to which everything has been read. */
  position: number
  cuts = 0
  readonly close: () => void
  #highest: number
  readonly #read = new Set<string>()

  constructor (log: EventLog, since: number) {
    this.position = since
    this.#highest = since
    this.close = log.onChange((change) => {
      if (change.type !== 'cut') return
      this.cuts++
      for (const { id, idx } of change.entries) if (idx <= this.position) this.#read.add(id)
      this.position = Math.min(this.position, change.after)
    })
  }

  /** Items for the entries after `position`. Indices up to `whole` without an entry become a gap. */
  steps (entries: readonly Entry[], whole: number): FollowItem[] {
    return [
      ...entries.flatMap((entry) => [...this.#gapTo(entry.prev), ...this.#step(entry)]), ...this.#gapTo(whole)
    ]
  }

  /** A gap up to `until`, without the indices that were read before the log's tail was replaced. */
  #gapTo (until: number): FollowItem[] {
    if (until <= this.position) return []
    const from = Math.max(this.position, this.#highest) + 1
    this.position = until
    return from <= until ? [{ type: 'gap', from, to: until }] : []
  }

  #step (entry: Entry): FollowItem[] {
    this.position = entry.idx
    const rising = entry.idx > this.#highest
    if (rising) this.#highest = entry.idx
    return this.#read.delete(entry.id) ? [] : [{ type: 'entry', entry, rising }]
  }
}
