import type { FlightEntry } from '../service.js'

const MAX_TEXT = 500

/** The last things that happened to a runner, for diagnostics; old entries fall out. */
export class FlightRecorder {
  readonly #size: number
  readonly #now: () => number
  #entries: FlightEntry[] = []

  /** `now` is wall time in milliseconds since 1970. */
  constructor (size: number, now: () => number) {
    this.#size = size
    this.#now = now
  }

  add (what: string): void {
    this.#entries.push({ at: new Date(this.#now()).toISOString(), what: what.slice(0, MAX_TEXT) })
    if (this.#entries.length > this.#size) this.#entries.shift()
  }

  entries (): FlightEntry[] { return [...this.#entries] }
}
