import { firstAfter } from './log.js'
import type { Entry } from './entries.js'
import type { EventLog } from './log.js'

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
  /** What is new, oldest first, at most `most` steps. */
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
  let missed: { from: number, to: number } | null = null
  const read = new Set<string>()
  const close = log.onChange((change) => {
    if (change.type !== 'cut') return
    for (const { id, idx } of change.entries) if (idx <= position) read.add(id)
    position = Math.min(position, change.after)
  })
  const skipMissing = (): void => {
    // Behind the ring: what lies between is gone, and was never read here.
    if (position < log.base.idx) {
      if (log.base.idx > highest) missed = { from: Math.max(position, highest) + 1, to: log.base.idx }
      position = log.base.idx
    }
  }
  const next = (): Read | null => {
    skipMissing()
    if (missed !== null) {
      const gap: Read = { type: 'gap', ...missed }
      missed = null
      return gap
    }
    const entry = log.entries[firstAfter(log.entries, position)]
    if (entry === undefined) return null
    position = entry.idx
    const rising = entry.idx > highest
    if (rising) highest = entry.idx
    return { type: 'entry', entry, rising }
  }
  return {
    close,
    get position () { return position },
    take (most) {
      const steps: Read[] = []
      while (steps.length < most) {
        const step = next()
        if (step === null) break
        if (step.type === 'entry' && read.delete(step.entry.id)) continue
        steps.push(step)
      }
      return steps
    }
  }
}
