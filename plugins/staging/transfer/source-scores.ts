import { backoffMs } from '../../../kernel/index.js'
import type { SourceFault, TransferLimits } from './types.js'

interface Score { failures: number, restUntil: number, busy: number, fault: SourceFault | undefined }

/** The pause after `failures` failures in a row, ms. */
export function pauseMs (
  failures: number, limits: Pick<TransferLimits, 'backoffMs' | 'backoffMaxMs'>, random: () => number
): number {
  return backoffMs(failures, { minMs: limits.backoffMs, maxMs: limits.backoffMaxMs }, random())
}

/** How the sources of a transfer have behaved: which of them rest, which count as dead. */
export class SourceScores {
  readonly #limits: TransferLimits
  readonly #random: () => number
  readonly #scores = new Map<string, Score>()
  /** The sources that gave wrong bytes of a chunk. */
  readonly #blamed = new Map<number, Set<string>>()
  readonly #wrong = new Map<number, number>()
  readonly #restarts = new Map<number, number>()

  constructor (limits: TransferLimits, random: () => number) {
    this.#limits = limits
    this.#random = random
  }

  of (id: string): Score {
    let score = this.#scores.get(id)
    if (score === undefined) {
      this.#scores.set(id, score = { failures: 0, restUntil: 0, busy: 0, fault: undefined })
    }
    return score
  }

  /** Too many failures in a row: asked again only while others keep the transfer alive. */
  dead (id: string): boolean { return this.of(id).failures > this.#limits.retries }

  /** A source failed and rests. One that was useful before it failed begins its count again. */
  failed (id: string, fault: SourceFault, now: number, useful: boolean): void {
    const score = this.of(id)
    score.failures = useful ? 1 : score.failures + 1
    const pause = Math.max(fault.retryAfterMs ?? 0, pauseMs(score.failures, this.#limits, this.#random))
    score.restUntil = now + pause
    score.fault = fault
  }

  /** A chunk that a source gave bytes of is right. */
  succeeded (id: string): void { this.of(id).failures = 0 }

  /** A chunk has to begin anew because its source cannot go on from the middle; returns how often by now. */
  restarted (chunk: number): number {
    const times = (this.#restarts.get(chunk) ?? 0) + 1
    this.#restarts.set(chunk, times)
    return times
  }

  /** A chunk came out wrong; returns how often by now. */
  wrong (chunk: number, givers: Iterable<string>): number {
    const blamed = this.#blamed.get(chunk) ?? new Set()
    for (const id of givers) blamed.add(id)
    this.#blamed.set(chunk, blamed)
    const times = (this.#wrong.get(chunk) ?? 0) + 1
    this.#wrong.set(chunk, times)
    return times
  }

  /** Whether a source gave wrong bytes of a chunk. */
  blamed (id: string, chunk: number): boolean { return this.#blamed.get(chunk)?.has(id) === true }

  /** The last fault of each source, for a message. */
  faults (): string {
    const told = [...this.#scores].filter(([, { fault }]) => fault !== undefined)
    return told.map(([id, { fault }]) => `${id}: ${fault!.message}`).join('; ')
  }
}
