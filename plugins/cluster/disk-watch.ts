import { Listeners, type Clock, type Logger } from '../../kernel/cluster.js'

export interface DiskWatchOptions {
  clock: Clock, log: Logger, everyMs: number
  /** Writes a test file; resolves to false if that fails. */
  write: (() => Promise<boolean>) | undefined
  refused: () => void
}

/** A test write counts as failed after `everyMs`, which is counted in this many ticks. */
const TICKS = 20

export class DiskWatch {
  /** Notified when the disk starts or stops refusing writes. */
  readonly changed: Listeners<void>
  readonly #options: DiskWatchOptions
  #writes = true
  #checking = false

  constructor (options: DiskWatchOptions) {
    this.#options = options
    this.changed = new Listeners(options.log)
  }

  get writes (): boolean { return this.#writes }

  start (): () => void {
    const { clock, everyMs } = this.#options
    return clock.every(everyMs, () => { void this.check() })
  }

  async check (): Promise<void> {
    const { clock, everyMs, write } = this.#options
    if (write === undefined || this.#checking) return
    this.#checking = true
    // Counts ticks instead of time, because a blocked event loop is not a disk fault.
    let ticks = 0
    const stop = clock.every(everyMs / TICKS, () => { if (++ticks % TICKS === 0) this.#report(false) })
    const writes = await write()
    stop()
    this.#checking = false
    this.#report(writes)
  }

  #report (writes: boolean): void {
    const changed = writes !== this.#writes
    this.#writes = writes
    if (!writes) this.#options.refused()
    if (changed) this.changed.tell()
  }
}
