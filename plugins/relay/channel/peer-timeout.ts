import type { Clock } from '../../../kernel/index.js'

export interface PulseTimes {
  /** Interval of checks. */
  readonly lookMs: number
  /** A silent end sends a keep-alive after this time. */
  readonly quietMs: number
  /** A silent peer counts as gone after this time. */
  readonly goneMs: number
}

/** Notices a lost peer within 45 s; tolerates two lost keep-alives. */
export const pulseTimes: PulseTimes = { lookMs: 5000, quietMs: 12_000, goneMs: 40_000 }

export interface PulseOptions {
  readonly clock: Pick<Clock, 'mono' | 'every'>
  readonly times: PulseTimes
  /** Says to the other end that this one is there; the sending itself counts as `sent`. */
  readonly beat: () => void
  /** Called once, after `goneMs` of silence. */
  readonly gone: () => void
}

/** Detects a vanished peer: a relay answers only for itself, so silence is the one sign of a dead end. */
export class PeerTimeout {
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
