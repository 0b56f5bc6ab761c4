import { kindOf } from '../entries.js'
import type { Entry } from '../entries.js'
import type { Row } from './queue.js'

/** The whole entry as JSON, and beside it what can be searched for. */
export function rowOf (entry: Entry): Row {
  const { idx, prev, at, sid, origin, event } = entry
  const parsed = Date.parse(at)
  // The clock of another node, or none at all.
  const ms = Number.isNaN(parsed) ? 0 : parsed
  const text = JSON.stringify([idx, ms, sid, origin, kindOf(event), JSON.stringify(entry)])
  return { idx, prev, ms, entry, text }
}
