import { plain, type Verb, type VerbContext } from '../../../kernel/cli/index.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { routes } from '../routes.js'

type Listed = FromSchema<typeof routes.list.reply>
type Decided = FromSchema<typeof routes.decide.reply>
type Budget = FromSchema<typeof routes.budget.reply>

export default {
  async run (ctx, [what, caller, amount], options) {
    if (what === 'budget') return await setBudget(ctx, caller, amount)
    if (caller !== undefined) throw ctx.fail(2, `svc approve ${plain(what ?? '')}: too many arguments`)
    if (what === undefined || what === 'ls') return await list(ctx)
    if (!/^apr_[0-9a-f]{12}$/.test(what)) {
      throw ctx.fail(2, `"${plain(what)}" is not an approval id; svc approve lists the ids`)
    }
    await decide(ctx, what, options)
  }
} satisfies Verb

async function list ({ client, out, err }: VerbContext): Promise<void> {
  const listed = await client.json<Listed>('/v1/approvals')
  if (out.json) return out.value(listed)
  for (const { name, message } of listed.failed) err.line(`${plain(name)} ${plain(message)}`)
  if (listed.approvals.length === 0) err.line('no calls wait for approval')
  else {
    out.table(['ID', 'COST', 'CAPABILITY', 'CALLER', 'NODE', 'UNTIL'], listed.approvals.map((one) =>
      [one.id, one.cost, one.capability, plain(one.by), plain(one.node), one.until]))
  }
  if (listed.budgets.length === 0) return
  out.table(['BUDGET OF', 'A DAY', 'SPENT TODAY', 'NODE'], listed.budgets.map((one) =>
    [plain(one.caller), one.per_day, one.spent, plain(one.node)]))
}

async function decide (ctx: VerbContext, id: string, options: Record<string, unknown>): Promise<void> {
  const { client, out } = ctx
  const decision = options['deny'] === true ? 'deny' : 'approve'
  const reason = typeof options['reason'] === 'string' ? options['reason'] : null
  const answer = await client.json<Decided>(`/v1/approvals/${id}`,
    { method: 'POST', body: { decision, reason } })
  const { approval: { cost, capability, by } } = answer
  if (out.json) out.value(answer)
  else out.line(`${decision === 'deny' ? 'denied' : 'approved'}: ${cost} for ${capability} by ${plain(by)}`)
}

async function setBudget (
  { client, out, fail }: VerbContext, caller: string | undefined, amount: string | undefined
): Promise<void> {
  if (caller === undefined || amount === undefined) {
    throw fail(2, 'expected CALLER AMOUNT, such as svc approve budget app_0123456789ab "5 EUR"')
  }
  const path = `/v1/approvals/budgets/${encodeURIComponent(caller)}`
  const answer = await client.json<Budget>(path, { method: 'PUT', body: { per_day: amount } })
  if (out.json) out.value(answer)
  else out.line(`${plain(answer.caller)} may spend ${answer.per_day} a day at ${plain(answer.node)}`)
}
