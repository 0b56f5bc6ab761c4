import type { TokenRecord } from '../../../kernel/index.js'
import type { Verb } from '../../../kernel/cli/index.js'

interface Shown extends TokenRecord { node: string | null, limits: Record<string, number> | null }

export default {
  async run ({ client, out }) {
    const answer = await client.json<{ tokens: Shown[] }>('/v1/tokens')
    if (out.json) return out.value(answer)
    const headers = ['ID', 'LABEL', 'VALID AT', 'AUTHORITIES', 'MODELS', 'LIMITS', 'CREATED', 'EXPIRES',
      'LAST USED', 'STATE']
    out.table(headers, answer.tokens.map((t) =>
      [t.id, t.label, t.node ?? 'cluster', t.authorities.join(','), t.models?.join(',') ?? 'all',
        Object.entries(t.limits ?? {}).map((limit) => limit.join('=')).join(',') || 'none',
        t.created.slice(0, 10), t.expires?.slice(0, 16) ?? 'never',
        t.lastUsedDay ?? 'never', stateOf(t, Date.now())]))
  }
} satisfies Verb

export function stateOf (
  token: Pick<TokenRecord, 'revoked' | 'expires'>, now: number
): 'active' | 'expired' | 'revoked' {
  if (token.revoked) return 'revoked'
  return token.expires !== null && Date.parse(token.expires) <= now ? 'expired' : 'active'
}
