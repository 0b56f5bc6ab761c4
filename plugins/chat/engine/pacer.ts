/** How long a piece of a prompt may be, so that other sequences do not wait for it. */

/** A piece takes about as long as this many decode steps, which is what another sequence waits at most. */
const STEPS = 2
/** Below this a shorter piece helps nobody. */
const MIN_MS = 20
/** Nobody can be cancelled during a call. */
const MAX_MS = 500
/** A shorter piece takes hardly less time: weights and states are read for each. */
const MIN_TOKENS = 16
const MAX_TOKENS = 512
/** Tokens of a piece before anything was measured. */
const FIRST_TOKENS = 128
/** Weight of the newest measurement. */
const NEWEST = 0.3

const mixed = (known: number | undefined, fresh: number): number =>
  known === undefined ? fresh : known + NEWEST * (fresh - known)

/** Sizes of pieces, from measured times in milliseconds. */
export class Pacer {
  private decodeMs: number | undefined
  private tokenMs: number | undefined

  /** Tells how long one step of all sequences took. */
  decoded (ms: number): void { this.decodeMs = mixed(this.decodeMs, ms) }

  /** Tells how long a piece took. */
  prefilled (tokens: number, ms: number): void { this.tokenMs = mixed(this.tokenMs, ms / tokens) }

  /** Tokens of the next piece. */
  get tokens (): number {
    if (this.tokenMs === undefined || this.decodeMs === undefined) return FIRST_TOKENS
    const wanted = Math.min(Math.max(STEPS * this.decodeMs, MIN_MS), MAX_MS)
    const fitting = this.tokenMs > 0 ? Math.floor(wanted / this.tokenMs) : MAX_TOKENS
    return Math.min(Math.max(fitting, MIN_TOKENS), MAX_TOKENS)
  }
}
