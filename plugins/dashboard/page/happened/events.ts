import type { Replies } from '../../../../docs/reference/replies.js'

export type ControlEvent = Omit<Replies['GET /events']['events'][number], 'event' | 'sessionId'> &
  { event: Record<string, Record<string, unknown>> }

export const kindOf = ({ event }: ControlEvent): string => Object.keys(event)[0] ?? ''
export const fieldsOf = (one: ControlEvent): Record<string, unknown> => one.event[kindOf(one)] ?? {}

export function kindWords (kind: string): string {
  const words = kind.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

export type Level = 'ok' | 'warn' | 'error' | 'plain'

export function levelOf (kind: string): Level {
  if (/Failed|Corrupt|Violation|FailureRecorded|Diverged/.test(kind)) return 'error'
  if (/TimedOut|Removed|Waiting|Evicted|Gap|Refused|Unloaded/.test(kind)) return 'warn'
  return /Created|Joined|Elected|Stored/.test(kind) ? 'ok' : 'plain'
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}$/

/** Shortens an object with one key, such as a runner's status, to the key, and a UUID to 8 digits. */
function short (value: unknown): string {
  if (Array.isArray(value)) return value.map(short).join(', ')
  if (value !== null && typeof value === 'object') {
    const keys = Object.keys(value)
    return keys.length === 1 ? keys[0]! : JSON.stringify(value)
  }
  return typeof value === 'string' && UUID.test(value) ? value.slice(0, 8) : String(value)
}

const BARE = ['modelId', 'nodeId', 'nodeIds', 'status', 'message', 'errorMessage']

/** The fields of an event on one line, most important first, with node names instead of ids. */
export function summaryOf (one: ControlEvent, nameOf: (nodeId: string) => string): string {
  const fields = Object.entries(fieldsOf(one))
  const place = ([key]: [string, unknown]): number => BARE.includes(key) ? BARE.indexOf(key) : BARE.length
  return fields.sort((a, b) => place(a) - place(b)).map(([key, value]) => {
    const text = /nodeIds?$/i.test(key)
      ? [value].flat().map((id) => nameOf(String(id))).join(', ')
      : short(value)
    return BARE.includes(key) ? text : `${kindWords(key).toLowerCase().replace(/ id$/, '')} ${text}`
  }).join(' · ')
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
