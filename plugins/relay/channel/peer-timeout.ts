import type { Clock } from '../../../kernel/index.js'

export interface PulseTimes {
  readonly checkMs: number
  /** Milliseconds without sending after which this end sends a keep-alive. */
  readonly quietMs: number
  /** Milliseconds of silence after which the peer counts as gone. */
  readonly timeoutMs: number
}

/** Times that detect a lost peer within 45 s, but tolerate two lost keep-alives. */
export const pulseTimes: PulseTimes = { checkMs: 5000, quietMs: 12_000, timeoutMs: 40_000 }

export interface PulseOptions {
  readonly clock: Pick<Clock, 'mono' | 'every'>
  readonly times: PulseTimes
  /** Sends a keep-alive, by a path that calls `sent` like any other message. */
  readonly beat: () => void
  readonly onTimeout: () => void
}

/** Detects a vanished peer by its silence, because a relay answers WebSocket pings only for itself. */
export class PeerTimeout {
  readonly #clock: Pick<Clock, 'mono'>
  #sentMs: number
  #receivedMs: number
  readonly stop: () => void

  constructor ({ beat, clock, onTimeout, times: { checkMs, quietMs, timeoutMs } }: PulseOptions) {
    this.#clock = clock
    this.#sentMs = this.#receivedMs = clock.mono()
    this.stop = clock.every(checkMs, () => {
      const now = clock.mono()
      if (now - this.#receivedMs >= timeoutMs) {
        this.stop()
        onTimeout()
      } else if (now - this.#sentMs >= quietMs) beat()
    })
  }

  sent (): void { this.#sentMs = this.#clock.mono() }

  received (): void { this.#receivedMs = this.#clock.mono() }
}
