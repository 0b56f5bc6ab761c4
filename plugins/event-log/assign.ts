import { jsonBytes } from './entries.js'
import { PAGE_BYTES, PAGE_ENTRIES } from './limits.js'
import type { Entry, Submission } from './entries.js'
import type { EventLog } from './log.js'

/** Puts each event that is not in the log at its end, above index `above`. Returns the new entries. */
export function assign (
  log: EventLog, sid: string, above: number, submissions: readonly Submission[]
): Entry[] {
  const added: Entry[] = []
  for (const submission of submissions) {
    if (log.has(submission.id)) continue
    added.push(log.extend(Math.max(log.last.idx, above) + 1, sid, submission))
  }
  return added
}

/** Entries in groups that fit into a message. */
export function inPages (entries: readonly Entry[]): Entry[][] {
  // As a rule. It need not be measured then.
  if (entries.length === 1) return [[...entries]]
  const pages: Entry[][] = []
  let bytes = 0
  for (const entry of entries) {
    const size = jsonBytes(entry)
    const page = pages.at(-1)
    if (page === undefined || page.length >= PAGE_ENTRIES || bytes + size > PAGE_BYTES) {
      pages.push([entry])
      bytes = size
    } else {
      page.push(entry)
      bytes += size
    }
  }
  return pages
}
