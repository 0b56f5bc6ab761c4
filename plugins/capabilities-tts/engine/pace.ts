/**
 * How long the pieces of an answer are: the first is short, so that sound starts at once; each further one is
 * twice as long, up to a limit. Chunks grow to the interval asked for; decoded pieces grow further, because
 * their overlaps make short ones dear.
 */

/** Seconds of the first piece: one MP3 frame comes out of it at every sampling rate. */
export const FIRST_SECONDS = 0.12
/**
 * Seconds of the longest decoded piece: well under a second of work on any machine that speaks in real time.
 */
export const DECODE_SECONDS = 4

/** The lengths of successive pieces, in seconds. */
export class Pace {
  private seconds: number
  private readonly limit: number

  constructor (first: number, limit: number) {
    this.limit = limit
    this.seconds = Math.min(first, limit)
  }

  /** Length of the next piece. */
  next (): number {
    const now = this.seconds
    this.seconds = Math.min(now * 2, this.limit)
    return now
  }
}
