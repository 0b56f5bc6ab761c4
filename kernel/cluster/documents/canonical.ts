import { createHash } from 'node:crypto'
import { canonicalJson } from '../../calls/revision.js'

/**
 * SHA-256, in hex, of the canonical JSON of a document's entries as a list of `[key, value]`, ordered by key
 * (UTF-16 code units). Two nodes with the same entries have the same hash.
 */
export function hashOf (entries: Iterable<readonly [string, unknown]>): string {
  const sorted = [...entries].sort(([a], [b]) => a < b ? -1 : 1)
  return createHash('sha256').update(canonicalJson(sorted)).digest('hex')
}
