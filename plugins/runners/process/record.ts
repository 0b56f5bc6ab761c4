import type { Clock } from '../../../kernel/index.js'
import type { FlightEntry } from '../service.js'

/** Longest text of one entry of the flight recorder. */
const TEXT_CHARS_MAX = 500

/** What happened to a runner and what it has done so far, over all of its processes. */
export class RunnerRecord {
  restarts = 0
  /** Of the last process that ended; null when a signal ended it. */
  exitCode: number | null = null
  completedTasks = 0
  admittedTasks = 0
  /** Time that tasks have waited for admission, ms. */
  waitedMs = 0
  chunksReceived = 0
  /** Chunks that came late, twice, or for a task that had ended. */
  chunksDropped = 0
  /** Monotonic ms of the last result of a real inference: a chunk, or a warmup that succeeded. */
  forwardMono: number | null = null
  readonly #clock: Pick<Clock, 'now' | 'mono'>
  readonly #entriesMax: number
  #entries: FlightEntry[] = []

  constructor (clock: Pick<Clock, 'now' | 'mono'>, entriesMax: number) {
    this.#clock = clock
    this.#entriesMax = entriesMax
  }

  /** A real inference gave a result. */
  forward (): void { this.forwardMono = this.#clock.mono() }

  /** Adds an entry to the flight recorder; the oldest falls out. */
  note (what: string): void {
    this.#entries.push({ at: new Date(this.#clock.now()).toISOString(), what: what.slice(0, TEXT_CHARS_MAX) })
    if (this.#entries.length > this.#entriesMax) this.#entries.shift()
  }

  entries (): FlightEntry[] { return [...this.#entries] }
}
