const MOST = 50
const MOST_BYTES = 32 * 1024 * 1024

export interface Size { id: string, changedAt: number, bytes: number }

/** The conversations to delete so that the rest fits the limits: the oldest first, never the newest. */
export function tooMany (sizes: readonly Size[], most = MOST, mostBytes = MOST_BYTES): string[] {
  let bytes = 0
  return [...sizes].sort((a, b) => b.changedAt - a.changedAt).filter((one, i) => {
    bytes += one.bytes
    return i > 0 && (i >= most || bytes > mostBytes)
  }).map(({ id }) => id)
}
