import { MEMORY_BYTES, RECENT_BYTES } from './limits.js'
import type { EventStore, Moment, Snapshot } from '../store/types.js'

/** True for a snapshot that was taken at or before that moment. */
function isBefore (snapshot: Snapshot, moment: Moment): boolean {
  return 'idx' in moment ? snapshot.idx <= moment.idx : snapshot.at <= moment.ms
}

/** All snapshots are in the store; the newest are in memory too. */
export class Snapshots {
  readonly #store: EventStore
  readonly #recent: Snapshot[] = []
  #bytes = 0

  constructor (store: EventStore) { this.#store = store }

  add (snapshot: Snapshot): void {
    this.#store.record(snapshot)
    this.#recent.push(snapshot)
    this.#bytes += snapshot.body.length
    const most = this.#store.status().mode === 'memory' ? MEMORY_BYTES : RECENT_BYTES
    while (this.#bytes > most && this.#recent.length > 1) this.#bytes -= this.#recent.shift()!.body.length
  }

  /** The log was cut after this index. Snapshots that were later now stand for the log up to there. */
  cut (after: number): void {
    for (const [i, snapshot] of this.#recent.entries()) {
      if (snapshot.idx > after) this.#recent[i] = { ...snapshot, idx: after }
    }
  }

  /** The newest one at or before that moment; null when there is none. Rejects when the store does. */
  async before (moment: Moment): Promise<Snapshot | null> {
    const found = this.#recent.findLast((snapshot) => isBefore(snapshot, moment))
    return found ?? await this.#store.snapshotBefore(moment)
  }

  /** The oldest one there is; null when there is none. Asks the store a few dozen times at most. */
  async oldest (): Promise<Snapshot | null> {
    let oldest = this.#recent[0] ?? await this.#store.snapshotBefore({ ms: Number.MAX_SAFE_INTEGER })
    if (oldest === null) return null
    // A search by halves: there is none before `low`, and the oldest known is at or after it.
    for (let low = 0; low < oldest.at;) {
      const middle: number = low + Math.floor((oldest.at - low) / 2)
      const older: Snapshot | null = await this.#store.snapshotBefore({ ms: middle })
      if (older === null) low = middle + 1
      else oldest = older
    }
    return oldest
  }
}
