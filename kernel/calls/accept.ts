interface Range { type: string, q: number }

/**
 * Picks the offered media type an Accept header likes best: highest q, then the range that names it more
 * exactly, then the order of the offers. No header is anything. Null when nothing offered is acceptable.
 * RFC 9110, 12.5.1; parameters other than q are not looked at.
 */
export function chooseType (accept: string | undefined, offers: readonly string[]): string | null {
  if (accept === undefined || accept.trim() === '') return offers[0] ?? null
  const ranges = accept.split(',').flatMap(parseRange)
  let best: { offer: string, q: number, exact: number } | null = null
  for (const offer of offers) {
    const match = matchOf(offer, ranges)
    if (match === null || match.q === 0) continue
    if (best === null || match.q > best.q || (match.q === best.q && match.exact > best.exact)) {
      best = { offer, ...match }
    }
  }
  return best?.offer ?? null
}

function parseRange (text: string): Range[] {
  const [type = '', ...params] = text.split(';').map((part) => part.trim().toLowerCase())
  if (!/^[^/\s]+\/[^/\s]+$/.test(type)) return []
  const given = params.find((p) => /^q\s*=/.test(p))
  const q = given === undefined ? 1 : Number(given.slice(given.indexOf('=') + 1))
  return [{ type, q: q >= 0 && q <= 1 ? q : 0 }]
}

/** The most exact range that covers the offer: 2 the type itself, 1 `audio/*`, 0 everything. */
function matchOf (offer: string, ranges: readonly Range[]): { q: number, exact: number } | null {
  const levels = ['*/*', `${offer.split('/')[0]}/*`, offer]
  for (const exact of [2, 1, 0]) {
    const range = ranges.find((r) => r.type === levels[exact])
    if (range !== undefined) return { q: range.q, exact }
  }
  return null
}
