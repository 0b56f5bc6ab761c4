import type { Clock } from '../../../kernel/index.js'
import type { FlightEntry } from '../service.js'

const TEXT_CHARS_MAX = 500

/** History and counters of a runner across all its processes. */
export class RunnerRecord {
  restarts = 0
  /** Exit code of the last process that ended; null if a signal ended it. */
  exitCode: number | null = null
  completedTasks = 0
  admittedTasks = 0
  /** Total ms that tasks waited for admission. */
  waitedMs = 0
  chunksReceived = 0
  /** Number of chunks that arrived late, twice, or for a task that had ended. */
  chunksDropped = 0
  /** Monotonic ms of the last real inference result, which is a chunk or a successful warmup. */
  forwardMono: number | null = null
  readonly #clock: Pick<Clock, 'now' | 'mono'>
  readonly #entriesMax: number
  #entries: FlightEntry[] = []

  constructor (clock: Pick<Clock, 'now' | 'mono'>, entriesMax: number) {
    this.#clock = clock
    this.#entriesMax = entriesMax
  }

  /** Call when a real inference gives a result. */
  forward (): void { this.forwardMono = this.#clock.mono() }

  /** Adds an entry to the flight recorder; drops the oldest entry if the recorder is full. */
  note (what: string): void {
    this.#entries.push({ at: new Date(this.#clock.now()).toISOString(), what: what.slice(0, TEXT_CHARS_MAX) })
    if (this.#entries.length > this.#entriesMax) this.#entries.shift()
  }

  entries (): FlightEntry[] { return [...this.#entries] }
}
