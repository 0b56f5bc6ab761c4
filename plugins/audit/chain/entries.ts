import { own, readRecord, type AuditRecord } from './record.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { routes } from '../routes.js'

export type Entry = FromSchema<typeof routes.list.reply>['entries'][number]

export interface EntryFilter {
  /** Earliest time of returned entries, ISO 8601. */
  readonly since: string | null
  readonly who: string | null
  /** Maximum number of entries returned; older ones are left out. */
  readonly limit: number
}

interface Ended { status?: unknown, reason?: unknown, noted?: unknown }

/** The newest matching entries, oldest first; skips invalid lines. `files`: the newest one first. */
export async function newestEntries (
  files: Iterable<AsyncIterable<string>>, { since, who, limit }: EntryFilter
): Promise<Entry[]> {
  const found: Entry[] = []
  const ends = new Map<unknown, Ended>()
  for (const file of files) {
    const records: AuditRecord[] = []
    for await (const line of file) {
      const record = readRecord(line)
      if (record !== null) records.push(record)
    }
    for (const record of records.reverse()) {
      if (record.what === own.outcome) ends.set(record.detail['of'], record.detail)
      else if ((since === null || record.at >= since) && (who === null || record.who === who)) {
        found.push(entryOf(record, ends.get(record.seq)))
        if (found.length >= limit) return found.reverse()
      }
    }
    const oldest = records.at(-1)
    if (since !== null && oldest !== undefined && oldest.at < since) break
  }
  return found.reverse()
}

function entryOf ({ seq, at, node, who, how, what, detail }: AuditRecord, end: Ended | undefined): Entry {
  // A refused request has no separate outcome record.
  const { refused, ...asked } = detail as { refused?: Ended }
  const { status, reason, noted } = end ?? refused ?? {}
  return {
    seq, at, node, who, how, what, detail: { ...asked, ...noted === undefined ? {} : { noted } },
    status: typeof status === 'number' ? status : null,
    reason: typeof reason === 'string' ? reason : null
  }
}
