import { samePosition } from './entries.js'
import type { Entry, Position } from './entries.js'
import type { EventLog } from './log.js'
import type { Message } from './messages.js'

export interface Adopted {
  /** `whole`: the log is the master's; `more`: as far as the page went; `broken`: the page did not fit. */
  readonly state: 'whole' | 'more' | 'broken'
  /** What the log had and the master's has not, or elsewhere. */
  readonly removed: Entry[]
}

/** Makes the log equal to the master's as far as a page of that goes. */
export function adopt (
  log: EventLog, { base, entries, last }: Extract<Message, { type: 'page' }>,
  append: (entry: Entry) => boolean
): Adopted {
  const removed = log.holds(base) ? [] : startBehind(log, base)
  for (const entry of entries) {
    if (log.holds(entry)) continue
    removed.push(...log.cut(entry.prev))
    if (!append(entry)) return { state: 'broken', removed }
  }
  if (!samePosition(entries.at(-1) ?? base, last)) return { state: 'more', removed }
  if (log.last.idx > last.idx) removed.push(...log.cut(last.idx))
  return { state: 'whole', removed }
}

/**
 * No common position. A log that ends before the master's begins was away for too long: its entries are older
 * than what the master keeps. Any other one differs.
 */
function startBehind (log: EventLog, base: Position): Entry[] {
  const away = log.last.idx < base.idx
  const entries = log.restart(base)
  return away ? [] : entries
}
