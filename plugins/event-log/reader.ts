import { firstAfter } from './log.js'
import type { Entry } from './entries.js'
import type { EventLog } from './log.js'

/** One step of a reader. */
export type Read =
  /** `rising`: its index is above all that were read before. It is not where the tail was replaced. */
  | { readonly type: 'entry', readonly entry: Entry, readonly rising: boolean }
  /** The indices `from` to `to` are no longer, or not yet, kept here. */
  | { readonly type: 'gap', readonly from: number, readonly to: number }

/** Indices behind `after`, up to `until`. */
export interface Span { readonly after: number, readonly until: number }

/** Reads the log as it grows. */
export interface Reader {
  /** Everything up to this index has been read. */
  readonly position: number
  /** What is to be read from the store before anything is taken; null when memory goes back so far. */
  readonly behind: Span | null
  /**
   * The oldest entries of that span in the store. `whole`: there are no more of them. Returns the steps they
   * make, none when the log has changed meanwhile.
   */
  older (span: Span, entries: readonly Entry[], whole: boolean): Read[]
  /** What is new in memory, oldest first, at most `most` steps. */
  take (most: number): Read[]
  close (): void
}

/**
 * Reads on from index `since`. Nothing is skipped and nothing is read twice, also when a tail is replaced by
 * that of another master: the events of the new tail follow, those that come back with another index do not.
 */
export function openReader (log: EventLog, since: number): Reader {
  let position = since
  let highest = since
  const read = new Set<string>()
  const close = log.onChange((change) => {
    if (change.type !== 'cut') return
    for (const { id, idx } of change.entries) if (idx <= position) read.add(id)
    position = Math.min(position, change.after)
  })
  const behind = (): Span | null => position < log.base.idx ? { after: position, until: log.base.idx } : null
  /** What lies between is gone, unless it was read before the tail was replaced. */
  const gapTo = (until: number): Read[] => {
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
    get behind () { return behind() },
    older (span, entries, whole) {
      if (span.after !== position) return []
      const steps = entries.flatMap((entry) =>
        [...entry.prev > position ? gapTo(entry.prev) : [], ...step(entry)])
      return whole && position < span.until ? [...steps, ...gapTo(span.until)] : steps
    },
    take (most) {
      const steps: Read[] = []
      while (steps.length < most && behind() === null) {
        const entry = log.entries[firstAfter(log.entries, position)]
        if (entry === undefined) break
        steps.push(...step(entry))
      }
      return steps
    }
  }
}
