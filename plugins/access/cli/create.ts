import { expiryOf, plain, type Verb } from '../../../kernel/cli/index.js'
import type { TokenRecord } from '../../../kernel/index.js'

export default {
  async run (ctx, [label], options) {
    const authorities = (options['authority'] as string[] | undefined) ?? ['read', 'invoke']
    const when = options['expires'] as string | undefined
    const expires = when === undefined ? null : expiryOf(when, Date.now())
    if (when !== undefined && expires === null) {
      throw ctx.fail(2, `--expires ${when}: expected a duration such as 90d or a future date such ` +
        'as 2027-01-31')
    }
    const limits = (options['limit'] as string[] | undefined)?.map((one) => {
      const [name, value, ...more] = one.split('=')
      if (more.length === 0 && /^\d+$/.test(value ?? '')) return [name, Number(value)]
      throw ctx.fail(2, `--limit ${plain(one)}: expected a name and a number such as tokens_per_day=100000`)
    })
    const made = await ctx.client.json<{ token: string, record: TokenRecord }>('/v1/tokens',
      {
        method: 'POST',
        body: {
          label, authorities, expires,
          ...options['model'] === undefined ? {} : { models: options['model'] },
          ...limits === undefined ? {} : { limits: Object.fromEntries(limits) as object },
          ...options['local'] === true ? { local: true } : {}
        }
      })
    if (ctx.out.json) return ctx.out.value(made)
    ctx.out.line(made.token)
    ctx.err.line(`token ${made.record.id} "${made.record.label}" may ${authorities.join(', ')}${
      made.record.models == null ? '' : ` with ${made.record.models.join(', ')}`}; it ${
      expires === null ? 'does not expire' : `expires ${expires}`}. It is not shown again: store it now.`)
  }
} satisfies Verb
