/** Notices a program that hangs: health checks of such programs answer while generation stands still. */
import type { Clock } from '../../runners/openai/program.js'

const TICK_MS = 1_000
/** Limit on the time without a sign of work of requests. */
const REQUEST_MS = 14_000
/** Time without an event after which other signs count, such as moving metrics. */
const QUIET_MS = 2_000
/** Limit on a canary whatever the signs, since a program can hang while it computes. */
const CANARY_MOST_MS = 60_000

/** Time in ms without requests after which a canary is sent, and limit on its time without a sign of work. */
export interface Pace { idleMs: number, canaryMs: number }
export const ALONE: Pace = { idleMs: 10_000, canaryMs: 5_000 }
/** A token passes all nodes of a gang many times, and a rank that waits shows no other sign of work. */
export const IN_GANG: Pace = { idleMs: 5_000, canaryMs: 10_000 }

export interface WatchParts {
  pace: Pace
  clock: Clock
  /** Generates one token; rejects if the program fails. */
  canary: (seen: () => void) => Promise<void>
  /** Values that change while the program works, as one text. */
  signs: () => Promise<string>
  lost: (why: string) => void
}

export class Watch {
  private readonly parts: WatchParts
  private open = 0
  private canaryMs: number | null = null
  /** Times of the last sign of work, and of the last proof that the program generates. */
  private movedMs: number
  private provenMs: number
  /** Signs at the last check since an event; null before the first one. */
  private told: string | null = null
  private over = false

  constructor (parts: WatchParts) {
    this.parts = parts
    this.movedMs = this.provenMs = parts.clock.now()
  }

  /** Runs until `close`. */
  async run (): Promise<void> {
    for (;;) {
      await this.parts.clock.pause(TICK_MS)
      if (this.over) return
      await this.tick()
    }
  }

  close (): void { this.over = true }

  /** Counts a request. Call `seen` for every event, and `done` at the end; `check`: send a canary soon. */
  request (): { seen: () => void, done: (check: boolean) => void } {
    if (this.open++ === 0 && this.canaryMs === null) this.seen()
    return {
      seen: () => { this.seen() },
      done: (check) => {
        this.open--
        this.provenMs = check ? -Infinity : this.provenMs
      }
    }
  }

  private seen (): void {
    this.movedMs = this.provenMs = this.parts.clock.now()
    this.told = null
  }

  private async tick (): Promise<void> {
    const { clock, signs, lost, pace: { idleMs, canaryMs } } = this.parts
    const now = clock.now()
    if (this.open === 0 && this.canaryMs === null) {
      if (now - this.provenMs >= idleMs) this.send()
      return
    }
    if (now - this.movedMs < QUIET_MS) return
    const told = await signs()
    if (this.told !== null && told !== this.told) this.movedMs = clock.now()
    this.told = told
    const stillMs = clock.now() - this.movedMs
    const alone = this.open === 0
    const sentMs = this.canaryMs === null ? 0 : clock.now() - this.canaryMs
    if (stillMs <= (alone ? canaryMs : REQUEST_MS) && !(alone && sentMs > CANARY_MOST_MS)) return
    this.over = true
    lost(`it hangs: ${alone ? 'a canary' : 'a request'} got no event for ${Math.round(stillMs / 1000)} s`)
  }

  private send (): void {
    this.seen()
    this.canaryMs = this.movedMs
    this.parts.canary(() => { this.seen() }).then(() => { this.seen() }, (error: Error) => {
      if (!this.over) this.parts.lost(`a canary failed: ${error.message}`)
      this.over = true
    }).finally(() => { this.canaryMs = null })
  }
}
