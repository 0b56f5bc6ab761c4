import { snapshotText } from './snapshot.js'
import type { ControlOptions, SnapshotStore } from './types.js'
import type { Snapshot } from './snapshot.js'

/** Where entries need not be durable, the disk is at most so far behind, ms. */
const PERIOD = 5000

/** Brings snapshots to the disk: each before it counts (`durable`), or now and then. */
export class Keeper {
  failed = 0
  readonly #options: ControlOptions
  readonly #store: SnapshotStore
  /** What is to be written when the time comes. */
  readonly #now: () => Snapshot
  #cancel: (() => void) | null = null
  #failing = false

  constructor (options: ControlOptions, store: SnapshotStore, now: () => Snapshot) {
    this.#options = options
    this.#store = store
    this.#now = now
  }

  /** Whether the change counts. False only when it must be durable and the disk refused. */
  keep (next: () => Snapshot): boolean {
    if (this.#options.durable) return this.#write(next())
    this.#cancel ??= this.#options.clock.after(PERIOD, () => { this.#due() })
    return true
  }

  close (): void {
    if (this.#cancel === null) return
    this.#cancel()
    this.#cancel = null
    this.#write(this.#now())
  }

  #due (): void {
    this.#cancel = null
    if (!this.#write(this.#now())) this.#cancel = this.#options.clock.after(PERIOD, () => { this.#due() })
  }

  #write (snapshot: Snapshot): boolean {
    const { log, path } = this.#options
    try {
      this.#store.write(snapshotText(snapshot))
    } catch (error) {
      this.failed++
      if (!this.#failing) log.error({ path, err: error }, 'the control data cannot be written to the disk')
      this.#failing = true
      return false
    }
    if (this.#failing) log.info({ path }, 'the control data is written to the disk again')
    this.#failing = false
    return true
  }
}
