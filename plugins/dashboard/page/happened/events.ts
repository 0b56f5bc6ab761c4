import { kindOf, kindWords, summaryOf } from '../../../../kernel/cli/event-words.js'
import type { Replies } from '../../../../docs/reference/replies.js'

export type ControlEvent = Omit<Replies['GET /events']['events'][number], 'event' | 'sessionId'> &
  { event: Record<string, Record<string, unknown>> }

export type Level = 'ok' | 'warn' | 'error' | 'plain'

export function levelOf (kind: string): Level {
  if (/Failed|Corrupt|Violation|FailureRecorded|Diverged/.test(kind)) return 'error'
  if (/TimedOut|Removed|Waiting|Evicted|Gap|Refused|Unloaded/.test(kind)) return 'warn'
  return /Created|Joined|Elected|Stored/.test(kind) ? 'ok' : 'plain'
}

/** Merges events into the shown ones, in order and without duplicates; keeps the newest `most`. */
export function withEvents (
  had: readonly ControlEvent[], more: readonly ControlEvent[], most = Infinity
): ControlEvent[] {
  const known = new Map(had.map((one) => [one.id, one]))
  // A new master may have moved an event to another index, so the later copy is the correct one.
  for (const one of more) known.set(one.id, one)
  return [...known.values()].sort((a, b) => a.idx - b.idx).slice(-Math.min(most, known.size))
}

export function hasText (one: ControlEvent, text: string, nameOf: (nodeId: string) => string): boolean {
  if (text.trim() === '') return true
  const all = `${kindOf(one)} ${kindWords(kindOf(one))} ${nameOf(one.origin)} ${summaryOf(one, nameOf)} ` +
    JSON.stringify(one.event)
  return all.toLowerCase().includes(text.trim().toLowerCase())
}

const WINDOW = 1000

/** The `since` index for requesting the events before an index; null if there are none. */
export function olderFrom (before: number, firstIdx: number): number | null {
  return before <= firstIdx ? null : Math.max(firstIdx - 1, before - 1 - WINDOW)
}
