import { readSpan } from './units.js'

/**
 * Reads which moment is meant: a span back from `now` (ms since 1970) such as `10m`, a time, or an index of
 * the event log. Returns it as the API takes it, a time as ISO-8601; null when the text is none of these.
 */
export function readMoment (text: string, now: number): string | null {
  if (/^\d{1,15}$/.test(text)) return text
  const span = readSpan(text)
  const ms = span !== undefined ? now - span * 1000
    : /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(new Date(ms).getTime()) ? null : new Date(ms).toISOString()
}

/** What to say of a text that names no moment. */
export const MOMENTS = 'expected a span such as 10m, a time such as 2026-01-31T08:00Z, or an index'
