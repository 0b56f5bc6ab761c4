import { waitForCallback } from '../../kernel/index.js'
import type { Clock } from '../../kernel/index.js'
import { MAX_BUFFERED_LINES } from './limits.js'
import { inOrder } from './lines.js'
import type { Gap, NodeStatus, ShownLine } from './lines.js'

export interface MergedItems { statuses: NodeStatus[], gaps: Gap[], lines: ShownLine[] }

/** Merges the output from several nodes by time, in bounded memory. */
export class LogMerger {
  #statuses: NodeStatus[] = []
  #gaps: Gap[] = []
  #lines: ShownLine[] = []
  readonly #onFill = new Set<() => void>()
  readonly #onTake = new Set<() => void>()

  /** Queues a status event: a node stopped answering or answers again. */
  addStatus (status: NodeStatus): void {
    this.#statuses.push(status)
    this.#filled()
  }

  /** Adds lines; resolves when the buffer has space for more, or when the signal aborts. */
  async put (lines: readonly ShownLine[], gap: Gap | null, signal: AbortSignal): Promise<void> {
    this.#lines.push(...lines)
    if (gap !== null) this.#gaps.push(gap)
    if (lines.length > 0 || gap !== null) this.#filled()
    while (this.#lines.length >= MAX_BUFFERED_LINES && !signal.aborted) {
      await waitForCallback(on(this.#onTake), signal)
    }
  }

  /** Resolves to true as soon as there are items, or to false after `ms` without items. */
  async filled (clock: Pick<Clock, 'after'>, ms: number, signal: AbortSignal): Promise<boolean> {
    if (this.#empty()) await waitForCallback(on(this.#onFill), signal, { clock, ms })
    return !this.#empty()
  }

  take (): MergedItems {
    const taken = { statuses: this.#statuses, gaps: this.#gaps, lines: inOrder(this.#lines) }
    this.#statuses = []
    this.#gaps = []
    this.#lines = []
    for (const fn of this.#onTake) fn()
    return taken
  }

  #empty (): boolean { return this.#statuses.length + this.#gaps.length + this.#lines.length === 0 }

  #filled (): void { for (const fn of this.#onFill) fn() }
}

const on = (set: Set<() => void>) => (fn: () => void): () => void => {
  set.add(fn)
  return () => { set.delete(fn) }
}
