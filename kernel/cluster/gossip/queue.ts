/** A reading that waits. */
export interface Waiting { key: string, value: unknown, bytes: number }

/** The counts of a queue; `offered = coalesced + dropped + taken + depth` at any time. */
export interface QueueCounts {
  offered: number
  coalesced: number
  dropped: number
  taken: number
  depth: number
  maxDepth: number
}

export interface ReadingQueue {
  /** A reading of the same key that waits is replaced and keeps its place; a full queue drops its oldest. */
  offer (reading: Waiting): void
  /** The oldest readings that fit into `bytes`, at least one; they stay until `remove`. */
  batch (bytes: number): Waiting[]
  /** Takes out what was published. */
  remove (batch: readonly Waiting[]): void
  /** Counts a reading that is not let in at all. */
  refuse (): void
  counts (): QueueCounts
}

/** Bounded, latest wins: at most `capacity` keys. Pure. */
export function createQueue (capacity: number): ReadingQueue {
  const waiting = new Map<string, Waiting>()
  const counts = { offered: 0, coalesced: 0, dropped: 0, taken: 0, maxDepth: 0 }
  const dropOldest = (): void => {
    const [oldest] = waiting.keys()
    if (oldest === undefined) return
    waiting.delete(oldest)
    counts.dropped++
  }
  return {
    offer (reading) {
      counts.offered++
      if (waiting.has(reading.key)) counts.coalesced++
      else if (waiting.size >= capacity) dropOldest()
      waiting.set(reading.key, reading)
      counts.maxDepth = Math.max(counts.maxDepth, waiting.size)
    },
    batch (bytes) {
      const batch: Waiting[] = []
      let left = bytes
      for (const reading of waiting.values()) {
        left -= reading.bytes
        if (left < 0 && batch.length > 0) break
        batch.push(reading)
      }
      return batch
    },
    remove (batch) {
      for (const reading of batch) {
        if (waiting.get(reading.key) !== reading) continue
        waiting.delete(reading.key)
        counts.taken++
      }
    },
    refuse () {
      counts.offered++
      counts.dropped++
    },
    counts: () => ({ ...counts, depth: waiting.size })
  }
}
