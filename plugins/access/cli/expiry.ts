const UNITS: Readonly<Record<string, number>> = { h: 3_600_000, d: 86_400_000, w: 604_800_000 }

/**
 * Reads when a token ends: a span (`12h`, `90d`, `4w`) from `now` (ms since 1970), or a date. Returns it in
 * ISO-8601, or null when the text is neither or not in the future.
 */
export function expiryOf (text: string, now: number): string | null {
  const span = /^(\d{1,5})([hdw])$/.exec(text)
  const at = span === null
    ? /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
    : now + Number(span[1]) * UNITS[span[2]!]!
  return at > now ? new Date(at).toISOString() : null
}
