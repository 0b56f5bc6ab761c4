const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/**
 * Reads where to begin: a span back from `now` (ms since 1970) such as `10m`, a time, or an index. Returns
 * what GET /events takes as `since`, or null when the text is none of these.
 */
export function sinceOf (text: string, now: number): string | null {
  const span = /^(\d{1,6})([smhd])$/.exec(text)
  if (span !== null) return new Date(now - Number(span[1]) * UNITS[span[2]!]!).toISOString()
  if (/^\d{1,15}$/.test(text)) return text
  const at = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(at) ? null : new Date(at).toISOString()
}
