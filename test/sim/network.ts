import type { Schedule } from './schedule.js'

/**
 * `hole`: nothing arrives, but sent messages may arrive after the heal. `reset`: the connection is closed.
 */
export type Cut = 'hole' | 'reset'

/** Probabilities that a message is lost, sent twice or late. */
export interface Weather { readonly loss: number, readonly twice: number, readonly late: number }

/** No random disturbances, for handwritten schedules. */
export const STILL: Weather = { loss: 0, twice: 0, late: 0 }
export const CALM: Weather = { loss: 0.005, twice: 0.01, late: 0.02 }
export const ROUGH: Weather = { loss: 0.05, twice: 0.05, late: 0.1 }

/** How often a message is resent while its path lets nothing through. */
const RETRIES = 12

/** Receiver of a message. `gone`: whether the process to which the message was sent has ended since. */
export interface Target { gone (): boolean, take (): void }

/** Links between nodes, with latency and faults per direction: loss, duplicates, delay, cuts and resets. */
export class Network {
  readonly #schedule: Schedule
  readonly #random: () => number
  weather: Weather
  readonly #cuts = new Map<string, Cut>()

  constructor (schedule: Schedule, random: () => number, weather: Weather) {
    this.#schedule = schedule
    this.#random = random
    this.weather = weather
  }

  cut (from: string, to: string, how: Cut): void { this.#cuts.set(`${from}>${to}`, how) }
  heal (): void { this.#cuts.clear() }
  isCut (from: string, to: string): boolean { return this.#cuts.has(`${from}>${to}`) }
  get whole (): boolean { return this.#cuts.size === 0 }

  /** Sends a message, which may be lost, delayed or duplicated. */
  carry (from: string, to: string, target: Target): void {
    if (this.#cuts.get(`${from}>${to}`) === 'reset' || this.#random() < this.weather.loss) return
    this.#try(from, to, target, 0)
    if (this.#random() < this.weather.twice) this.#try(from, to, target, 0)
  }

  #try (from: string, to: string, target: Target, tries: number): void {
    this.#schedule.after(this.#latency(), () => {
      if (target.gone()) return
      const cut = this.#cuts.get(`${from}>${to}`)
      if (cut === undefined) return target.take()
      if (cut === 'reset' || tries >= RETRIES) return
      this.#schedule.after(500 + this.#random() * 1500, () => { this.#try(from, to, target, tries + 1) })
    })
  }

  /** Latency in ms: 1 to 26, and rarely 300 to 1,800 more. */
  #latency (): number {
    const late = this.#random() < this.weather.late ? 300 + this.#random() * 1500 : 0
    return 1 + this.#random() * 25 + late
  }
}
