import { fact, quoted, createToolReads, shellWord } from '../../../kernel/cli/index.js'
import type { Evidence, Fact, Tool } from '../../../kernel/cli/index.js'
import type { TokenRecord } from '../../../kernel/index.js'

/** Tokens that are told one by one. */
const MOST = 20
const TOKENS: Evidence = { kind: 'path', path: '/v1/tokens' }

/** The tokens of the node that is asked, by label: which still count, and what each may do. */
export default {
  async run (ctx, { about = '' }) {
    const look = createToolReads(ctx)
    const list = await look.read<{ tokens: TokenRecord[] }>('The tokens', '/v1/tokens')
    if (list === null) return { facts: [], unknown: look.unknown }
    // Of one label the newest counts; what it replaced is no fault.
    const newest = [...new Map(list.tokens.toSorted((a, b) => a.created.localeCompare(b.created))
      .map((token) => [token.label, token])).values()].reverse()
    const named = newest.filter(({ id, label }) => names(about, label) || names(about, id))
    const facts = named.length > 0
      ? named.map((token) => told(token, ctx.nowMs, true))
      : newest.map((token) => told(token, ctx.nowMs, false))
    const none = fact('info', 'no_token', 'This node has made no token.', { evidence: [TOKENS] })
    return { facts: facts.length > 0 ? facts.slice(0, MOST) : [none], unknown: look.unknown }
  }
} satisfies Tool<{ about?: string }>

/** Whether a name stands among the words of a text. */
function names (text: string, name: string): boolean {
  const at = text.toLowerCase().indexOf(name.toLowerCase())
  const edge = (char: string | undefined): boolean => char === undefined || !/[\p{L}\p{N}_-]/u.test(char)
  return name !== '' && at >= 0 && edge(text[at - 1]) && edge(text[at + name.length])
}

/** What is to be known of a token. One that has ended is a fault only where it was asked for. */
function told (
  { id, label, authorities, expires, revoked, lastUsedDay }: TokenRecord, nowMs: number, named: boolean
): Fact {
  const called = quoted(label, 80)
  const over = expires !== null && Date.parse(expires) <= nowMs
  const level = !named ? 'info' : revoked || over ? 'fail' : 'ok'
  const remedy = revoked || over
    ? `Make a new one and give it to the client: \`svc token create ${shellWord(called)}\`.`
    : named && !authorities.includes('operator')
      ? 'What needs more is refused with 403, and says which authority it needs; make a token that has it: ' +
      `\`svc token create ${shellWord(called)} --authority ${authorities.join(' ')} …\`.`
      : null
  const used = lastUsedDay === null ? 'was never used' : `was last used on ${lastUsedDay}`
  const may = authorities.map((one) => quoted(one, 40)).join(', ')
  const [code, text] = revoked ? ['token_revoked', `was revoked and ${used}`]
    : over ? ['token_expired', `ended at ${expires} and ${used}`]
      : ['token_ok', `counts${expires === null ? '' : ` until ${expires}`}, may do ${may}, and ${used}`]
  return fact(level, code, `The token ${called} ${text}.`,
    { about: [called, id], evidence: [TOKENS], remedy })
}
