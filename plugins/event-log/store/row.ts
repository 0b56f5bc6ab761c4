import { kindOf } from '../entries.js'
import type { Entry } from '../entries.js'
import type { Row } from './queue.js'

/** The whole entry as JSON, and beside it what cannot be taken out of that by SQLite. */
export function rowOf (entry: Entry, json = JSON.stringify(entry)): Row {
  const { idx, prev, at, event } = entry
  const parsed = Date.parse(at)
  // The clock of another node, or none at all.
  const ms = Number.isNaN(parsed) ? 0 : parsed
  const text = `[${ms},${JSON.stringify(kindOf(event))},${json}]`
  return { idx, prev, ms, entry, text }
}
