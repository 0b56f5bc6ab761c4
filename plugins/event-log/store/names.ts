/**
 * A file with the index of its first entry in its name. `old`: its newest entries are in a segment by now.
 */
export interface NumberedFile {
  readonly type: 'segment' | 'old' | 'archive'
  readonly first: number
  readonly name: string
}

/** Files of the store, by what they are. `rest`: what an interrupted compaction or packing left. */
export type StoreFile = NumberedFile | { readonly type: 'rest', readonly name: string }

export const segmentName = (first: number): string => `seg-${first}.db`
export const oldName = (first: number): string => `old-${first}.db`
export const archiveName = (first: number): string => `seg-${first}.db.gz`

/** Where SQLite keeps what is not in the file itself yet. */
export const SIDECARS = ['-wal', '-shm', '-journal'] as const

/** What a file in the folder is; null for one that is nothing to the store. */
export function readName (name: string): StoreFile | null {
  const match = /^(seg|old)-(\d{1,16})\.db(\.gz)?(\.tmp)?(-wal|-shm|-journal)?$/.exec(name)
  if (match === null) return null
  const [, word, digits, gz, tmp, sidecar] = match
  if (tmp !== undefined) return { type: 'rest', name }
  if (sidecar !== undefined) return null
  const first = Number(digits)
  if (gz !== undefined) return word === 'seg' ? { type: 'archive', first, name } : null
  return { type: word === 'old' ? 'old' : 'segment', first, name }
}

/** The archives that are to go so that the others stay within these limits: the oldest. */
export function tooMany<T extends { readonly first: number, readonly bytes: number }> (
  archives: readonly T[], mostFiles: number, mostBytes: number
): T[] {
  const newestFirst = [...archives].sort((a, b) => b.first - a.first)
  let bytes = 0
  const from = newestFirst.findIndex((archive, i) => {
    bytes += archive.bytes
    return i >= mostFiles || bytes > mostBytes
  })
  return from < 0 ? [] : newestFirst.slice(from)
}
