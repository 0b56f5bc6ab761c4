import type { Clock } from '../../../kernel/index.js'

/** Times of a pulse, ms. */
export interface PulseTimes {
  /** Between two looks. */
  readonly lookMs: number
  /** An end that has sent nothing for so long says that it is there. */
  readonly quietMs: number
  /** An end that has heard nothing for so long takes the other one for gone. */
  readonly goneMs: number
}

/** What is missed is noticed within 45 s; two lost signs of life are not missed. */
export const pulseTimes: PulseTimes = { lookMs: 5000, quietMs: 12_000, goneMs: 40_000 }

export interface PulseOptions {
  readonly clock: Pick<Clock, 'mono' | 'every'>
  readonly times: PulseTimes
  /** Says to the other end that this one is there; the sending itself counts as `sent`. */
  readonly beat: () => void
  /** Nothing has come for `goneMs`; told once. */
  readonly gone: () => void
}

/**
 * Whether the other end of a connection is there. A relay answers for itself only: where the end behind it is
 * gone without a word, nothing but its silence tells.
 */
export class Pulse {
  readonly #clock: Pick<Clock, 'mono'>
  #sentMs: number
  #heardMs: number
  readonly stop: () => void

  constructor ({ beat, clock, gone, times: { goneMs, lookMs, quietMs } }: PulseOptions) {
    this.#clock = clock
    this.#sentMs = this.#heardMs = clock.mono()
    this.stop = clock.every(lookMs, () => {
      const now = clock.mono()
      if (now - this.#heardMs >= goneMs) {
        this.stop()
        gone()
      } else if (now - this.#sentMs >= quietMs) beat()
    })
  }

  sent (): void { this.#sentMs = this.#clock.mono() }

  heard (): void { this.#heardMs = this.#clock.mono() }
}
