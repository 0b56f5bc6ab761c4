import { Listeners } from '../../kernel/cluster.js'
import type { Clock, Logger } from '../../kernel/cluster.js'

export interface DiskWatchOptions {
  clock: Clock
  log: Logger
  /** Pause between two test writes, ms. */
  everyMs: number
  /** Whether the disk takes a test write. */
  write: (() => Promise<boolean>) | undefined
  refused: () => void
}

/** A write that takes so many ticks of the loop, of a twentieth of the pause each, has failed. */
const TICKS = 20

/** Tries whether the disk takes writes. */
export class DiskWatch {
  /** Told when the disk begins or ceases to refuse writes. */
  readonly changed: Listeners<void>
  readonly #options: DiskWatchOptions
  #writes = true
  #trying = false

  constructor (options: DiskWatchOptions) {
    this.#options = options
    this.changed = new Listeners(options.log)
  }

  get writes (): boolean { return this.#writes }

  start (): () => void {
    const { clock, everyMs } = this.#options
    return clock.every(everyMs, () => { void this.look() })
  }

  async look (): Promise<void> {
    const { clock, everyMs, write } = this.#options
    if (write === undefined || this.#trying) return
    this.#trying = true
    // Counted in ticks, since a blocked event loop proves no fault of the disk.
    let ticks = 0
    const stop = clock.every(everyMs / TICKS, () => { if (++ticks % TICKS === 0) this.#judge(false) })
    const writes = await write()
    stop()
    this.#trying = false
    this.#judge(writes)
  }

  #judge (writes: boolean): void {
    const changed = writes !== this.#writes
    this.#writes = writes
    if (!writes) this.#options.refused()
    if (changed) this.changed.tell()
  }
}
