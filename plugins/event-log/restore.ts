import { jsonBytes } from './entries.js'
import { RING_BYTES } from './limits.js'
import type { Entry } from './entries.js'
import type { EventLog } from './log.js'
import type { EventStore } from './store/types.js'

const PAGE = 1000

/**
 * The newest entries of the store that follow each other, as many as fit into memory. Rejects when the disk
 * does.
 */
export async function newestOf (
  store: Pick<EventStore, 'read'>, most: number, mostBytes = RING_BYTES
): Promise<Entry[]> {
  const pages: Entry[][] = []
  let entries = 0
  let bytes = 0
  while (entries <= most && bytes <= mostBytes) {
    const next = pages.at(-1)?.[0]
    const page = await store.read({
      after: 0, limit: PAGE, newest: true, ...(next === undefined ? {} : { until: next.idx - 1 })
    })
    const unbroken = behindGaps(page, next)
    if (unbroken.length === 0) break
    pages.push(unbroken)
    entries += unbroken.length
    bytes += jsonBytes(unbroken)
    if (unbroken.length < PAGE) break
  }
  return pages.reverse().flat()
}

/** The end of a page that has no gap, neither in it nor before the entry that follows. */
function behindGaps (page: readonly Entry[], next: Entry | undefined): Entry[] {
  if (next !== undefined && page.at(-1)?.idx !== next.prev) return []
  const from = page.findLastIndex((entry, i) => i > 0 && page[i - 1]!.idx !== entry.prev)
  return page.slice(Math.max(0, from))
}

/** Fills an empty log, in pieces: nothing else waits long. */
export async function restore (log: EventLog, entries: readonly Entry[]): Promise<void> {
  for (const [i, entry] of entries.entries()) {
    // The position before the first entry is not known, unless it is the first of all: it is the base then.
    if (!log.append(entry)) log.restart(entry)
    if (i % PAGE === PAGE - 1) await new Promise((resolve) => { setImmediate(resolve) })
  }
}
