import { systemClock, type FromSchema } from '../../../kernel/index.js'
import { plain, parseTimeOrIndex, type Verb, type VerbContext } from '../../../kernel/cli/index.js'
import type { Entry } from '../chain/entries.js'
import type { routes } from '../routes.js'

type Listed = FromSchema<typeof routes.list.reply>
type Checks = FromSchema<typeof routes.verify.reply>

export default {
  async run (ctx, [action], options) {
    if (action === undefined) return await list(ctx, options)
    if (action === 'verify') return await verify(ctx, options)
    throw ctx.fail(2, `svc audit ${plain(action)}: expected verify, or no argument to list the changes`)
  }
} satisfies Verb

function queryOf (ctx: VerbContext, options: Record<string, unknown>): string {
  const { since, who, node, limit } = options as Record<string, string | undefined>
  const query = new URLSearchParams()
  if (since !== undefined) {
    const from = /^\d+$/.test(since) ? null : parseTimeOrIndex(since, systemClock.now())
    if (from === null) {
      throw ctx.fail(2, `--since ${since}: expected a duration such as 2d, or a time such ` +
        'as 2026-01-31T08:00Z')
    }
    query.set('since', from)
  }
  if (who !== undefined) query.set('who', who)
  if (node !== undefined) query.set('node', node)
  if (limit !== undefined) query.set('limit', limit)
  const text = query.toString()
  return text === '' ? '' : `?${text}`
}

async function list (ctx: VerbContext, options: Record<string, unknown>): Promise<void> {
  const { client, out, err } = ctx
  const listed = await client.json<Listed>(`/v1/audit${queryOf(ctx, options)}`)
  if (out.json) return out.value(listed)
  for (const { name, message } of listed.failed) err.line(`${plain(name)} ${plain(message)}`)
  if (listed.entries.length === 0) {
    err.line('no matching changes')
    return
  }
  out.table(['WHEN', 'WHO', 'HOW', 'WHAT', 'RESULT', 'DETAIL'], listed.entries.map((entry) =>
    [entry.at, plain(entry.who), entry.how, plain(entry.what), resultOf(entry), plain(detailOf(entry))]))
}

/** A null status means that the change is in progress or that its node stopped before it ended. */
export function resultOf ({ status, reason }: Pick<Entry, 'status' | 'reason'>): string {
  if (status === null) return 'unknown'
  return status < 400 ? 'done' : `${status} ${plain(reason ?? '')}`.trim()
}

export function detailOf ({ detail }: Pick<Entry, 'detail'>): string {
  const { request: _, ...rest } = detail
  const parts = Object.values(rest).flatMap((part) =>
    typeof part === 'object' && part !== null && !Array.isArray(part) ? Object.entries(part) : [])
  const loose = Object.entries(rest).filter(([, part]) => typeof part !== 'object')
  return [...parts, ...loose].map(([key, value]) =>
    `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`).join(' ')
}

async function verify (ctx: VerbContext, options: Record<string, unknown>): Promise<number> {
  const { client, out } = ctx
  const { ok, nodes } = await client.json<Checks>(
    `/v1/audit/verify${queryOf(ctx, { node: options['node'] })}`)
  if (out.json) out.value({ ok, nodes })
  else for (const node of nodes) out.line(lineOf(node))
  if (!ok) return 1
  return nodes.some((node) => node.ok === null) ? 7 : 0
}

function lineOf (
  { name, records, first, last, fault, error }: Omit<Checks['nodes'][number], 'node' | 'ok'>
): string {
  const at = plain(name)
  if (fault !== null) return `${at}: ${plain(fault.message)} (${fault.kind})`
  if (error !== null) return `${at}: not verified: ${plain(error)}`
  return last === null
    ? `${at}: no records`
    : `${at}: ${records} records, ${first} to ${last.seq}, all intact`
}
