import type { TokenRecord } from '../../../kernel/index.js'
import type { Verb } from '../../../kernel/cli/index.js'
import { expiryOf } from '../../../kernel/cli/index.js'

export default {
  async run ({ client, err, fail, out }, [id], { overlap = '24h' }) {
    const spanMs = overlap === '0' ? 0 : Date.parse(expiryOf(overlap as string, 0) ?? '')
    if (Number.isNaN(spanMs)) throw fail(2, `--overlap ${overlap}: expected a duration such as 7d, or 0`)
    const made = await client.json<{ token: string, record: TokenRecord, replaces: string, ends: string }>(
      `/v1/tokens/${encodeURIComponent(id!)}/rotate`,
      { method: 'POST', body: { overlap_seconds: Math.round(spanMs / 1000) } })
    if (out.json) return out.value(made)
    out.line(made.token)
    const { id: newId, label, expires } = made.record
    err.line(`token ${newId} "${label}" (expires: ${expires ?? 'never'}) replaces ${made.replaces}, which ` +
      `ends ${made.ends}. The new one is not shown again: store it now.`)
  }
} satisfies Verb
