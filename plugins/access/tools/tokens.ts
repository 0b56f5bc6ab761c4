import { fact, quoted, createToolReads, shellWord } from '../../../kernel/cli/index.js'
import type { Evidence, Fact, Tool } from '../../../kernel/cli/index.js'
import type { TokenRecord } from '../../../kernel/index.js'

/** Maximum number of tokens listed individually in an answer. */
const MOST = 20
const TOKENS: Evidence = { kind: 'path', path: '/v1/tokens' }

export default {
  async run (ctx, { about = '' }) {
    const look = createToolReads(ctx)
    const list = await look.read<{ tokens: TokenRecord[] }>('The tokens', '/v1/tokens')
    if (list === null) return { facts: [], unknown: look.unknown }
    // Only the newest token with each label counts, because older ones were replaced on purpose.
    const newest = [...new Map(list.tokens.toSorted((a, b) => a.created.localeCompare(b.created))
      .map((token) => [token.label, token])).values()].reverse()
    const named = newest.filter(({ id, label }) => names(about, label) || names(about, id))
    const facts = (named.length > 0 ? named : newest).map((token) => told(token, ctx.nowMs, named.length > 0))
    const none = fact('info', 'no_token', 'This node has no tokens.', { evidence: [TOKENS] })
    return { facts: facts.length > 0 ? facts.slice(0, MOST) : [none], unknown: look.unknown }
  }
} satisfies Tool<{ about?: string }>

/** True if the text contains the name as a whole word. */
function names (text: string, name: string): boolean {
  const at = text.toLowerCase().indexOf(name.toLowerCase())
  const edge = (char: string | undefined): boolean => char === undefined || !/[\p{L}\p{N}_-]/u.test(char)
  return name !== '' && at >= 0 && edge(text[at - 1]) && edge(text[at + name.length])
}

/** An ended token is a fault only if the question named it; one that expires within a day is a finding. */
function told (
  { id, label, authorities, expires, revoked, lastUsedDay }: TokenRecord, nowMs: number, named: boolean
): Fact {
  const called = quoted(label, 80)
  const leftMs = expires === null ? Infinity : Date.parse(expires) - nowMs
  const [over, soon] = [leftMs <= 0, !revoked && leftMs > 0 && leftMs <= 24 * 3_600_000]
  const level = soon ? 'warn' : !named ? 'info' : revoked || over ? 'fail' : 'ok'
  const remedy = revoked || over || soon
    ? `Create a new one for the client: \`svc token create ${shellWord(called)}\`.`
    : named && !authorities.includes('operator')
      ? 'Requests that need more get a 403 that names the authority; create a token that has it: `svc ' +
      `token create ${shellWord(called)} --authority ${authorities.join(' ')} …\`.`
      : null
  const used = lastUsedDay === null ? 'was never used' : `was last used on ${lastUsedDay}`
  const may = authorities.map((one) => quoted(one, 40)).join(', ')
  const [code, text] = revoked ? ['token_revoked', `was revoked and ${used}`]
    : over ? ['token_expired', `expired at ${expires} and ${used}`]
      : soon ? ['token_ending', `expires at ${expires} and ${used}`]
        : ['token_ok', `is valid${expires === null ? '' : ` until ${expires}`}, may do ${may}, and ${used}`]
  return fact(level, code, `The token ${called} ${text}.`,
    { about: [called, id], evidence: [TOKENS], remedy })
}
