import { kindOf } from '../entries.js'
import { PAGE_ROWS } from './limits.js'
import type { Entry } from '../entries.js'
import type { Op } from './queue.js'
import type { StoreQuery } from './types.js'

/** What waits for the writer, as a reader sees it. */
export interface Pending {
  /** Entries of the disk above this index are, or will be, replaced or doubled by what waits. */
  readonly top: number
  readonly entries: readonly Entry[]
}

/** What the disk will have once these operations are carried out. */
export function pendingOf (ops: readonly Op[]): Pending {
  let entries: Entry[] = []
  let top = Number.MAX_SAFE_INTEGER
  for (const op of ops) {
    if (op.type === 'append') {
      top = Math.min(top, op.row.idx - 1)
      entries.push(op.row.entry)
    } else if (op.type === 'cut') {
      top = Math.min(top, op.after)
      entries = entries.filter(({ idx }) => idx <= op.after)
    }
  }
  return { top, entries }
}

/** A page of what is on the disk and what waits, as if all of it were on the disk. */
export async function readBoth (
  query: StoreQuery, { top, entries }: Pending,
  fromDisk: (query: StoreQuery, top: number) => Promise<Entry[]>
): Promise<Entry[]> {
  const { newest = false, after } = query
  const waiting = chosen(entries, query)
  const limit = Math.min(Math.max(1, query.limit), PAGE_ROWS)
  const wanted = newest ? limit - waiting.length : limit
  const older = wanted <= 0 || after >= top ? [] : await fromDisk({ ...query, limit: wanted }, top)
  const all = [...older, ...waiting]
  return newest ? all.slice(-limit) : all.slice(0, limit)
}

/** Those of the entries that a query asks for; its limit is left aside. */
function chosen (
  entries: readonly Entry[], { after, until = Infinity, kinds, origins, sinceMs }: StoreQuery
): Entry[] {
  return entries.filter((entry) => entry.idx > after && entry.idx <= until &&
    (kinds === undefined || kinds.includes(kindOf(entry.event))) &&
    (origins === undefined || origins.includes(entry.origin)) &&
    (sinceMs === undefined || Date.parse(entry.at) >= sinceMs))
}
