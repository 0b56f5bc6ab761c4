import { jsonBytes, samePosition } from './entries.js'
import { FEW_QUEUED, PAGE_ENTRIES, ROOM_MS } from './limits.js'
import { fitting } from './messages.js'
import type { Clock } from '../../kernel/index.js'
import type { Entry, Position } from './entries.js'
import type { EventStore } from './store/types.js'

/** What a store has after a position. */
export interface Found { readonly base: Position | null, readonly entries: readonly Entry[] }

/**
 * Finds the newest of these positions (newest first) in the store, and the page of entries that follows it
 * without a gap. Rejects when the disk does.
 */
export async function findInStore (
  store: Pick<EventStore, 'read'>, have: readonly Position[]
): Promise<Found> {
  for (const position of have) {
    const [first, ...rest] = await store.read({ after: position.idx - 1, limit: PAGE_ENTRIES + 1 })
    if (first === undefined) continue
    if (position.idx === 0 && first.prev === 0) {
      return { base: position, entries: pageOf(position, [first, ...rest]) }
    }
    if (samePosition(first, position)) return { base: position, entries: pageOf(position, rest) }
  }
  return { base: null, entries: [] }
}

/** The entries that follow the position without a gap, as many as fit into one message. */
function pageOf (base: Position, entries: readonly Entry[]): Entry[] {
  const end = entries.findIndex(({ prev }, i) => prev !== (entries[i - 1] ?? base).idx)
  return fitting(end < 0 ? entries : entries.slice(0, end), jsonBytes)
}

/**
 * Resolves when the store has room for more entries, or after 2 s without; null when there is room now. A
 * node that catches up waits for it, or it would ask for entries faster than its disk writes them.
 */
export function roomIn (store: Pick<EventStore, 'status' | 'flushed'>, clock: Clock): Promise<void> | null {
  if (store.status().queued < FEW_QUEUED) return null
  return new Promise((resolve) => {
    const cancel = clock.after(ROOM_MS, resolve)
    void store.flushed().then(() => {
      cancel()
      resolve()
    })
  })
}
