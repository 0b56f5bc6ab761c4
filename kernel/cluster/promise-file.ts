import { readVersioned, writeVersioned } from '../boot/home.js'
import type { PromiseRecord } from './election/index.js'

/** The promise a home holds; null at its first start. Throws HomeError for a broken file. */
export function readPromise (path: string | null): PromiseRecord | null {
  const stored = path === null ? undefined : readVersioned<PromiseRecord>(path, 1)
  if (stored === undefined) return null
  const { term, votedFor, boot } = stored
  return { term, votedFor, boot }
}

/** Writes it whole and durably; false when the disk refused. */
export function writePromise (path: string | null, record: PromiseRecord): boolean {
  if (path === null) return true
  try {
    writeVersioned(path, 1, record)
    return true
  } catch {
    return false
  }
}
