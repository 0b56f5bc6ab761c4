import type { TokenRecord } from '../../../kernel/index.js'
import type { Verb } from '../../../kernel/cli/index.js'

export default {
  async run (ctx, [label], options) {
    const authorities = (options['authority'] as string[] | undefined) ?? ['read', 'invoke']
    const when = options['expires'] as string | undefined
    const expires = when === undefined ? null : expiryOf(when, Date.now())
    if (when !== undefined && expires === null) {
      throw ctx.fail(2, `--expires ${when}: expected a span such as 90d or a date to come such as 2027-01-31`)
    }
    const made = await ctx.client.json<{ token: string, record: TokenRecord }>('/v1/tokens',
      { method: 'POST', body: { label, authorities, expires } })
    if (ctx.out.json) {
      ctx.out.value(made)
      return
    }
    ctx.out.line(made.token)
    ctx.err.line(`token ${made.record.id} "${made.record.label}" may ${authorities.join(', ')}; it ${
      expires === null ? 'does not expire' : `ends ${expires}`}. It is not shown again: keep it now.`)
  }
} satisfies Verb

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
