import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { programIn, readSpan, shellWord, formatDuration } from '../../../kernel/cli/index.js'
import { devPorts } from './dev-ports.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'
import type { JoinTokenRecord } from '../../../kernel/cluster.js'

const DEFAULT_TTL = '15m'

export default {
  async run (ctx, [action, id], options) {
    if (action === 'ls' && id === undefined) return await list(ctx)
    if (action === 'revoke' && id !== undefined) return await revoke(ctx, id)
    if (action !== undefined) {
      throw ctx.fail(2, 'expected `svc join-token`, `svc join-token ls` or `svc join-token revoke ID`')
    }
    const given = (options['ttl'] as string | undefined) ?? DEFAULT_TTL
    const seconds = readSpan(given)
    if (seconds === undefined || seconds === 0) {
      throw ctx.fail(2, `--ttl ${given}: expected a duration such as 90s, 15m, 2h or 1d`)
    }
    const local = options['local'] === true ? { local: true } : {}
    const made = await ctx.client.json<{ token: string, expires: string, command: string }>(
      '/cluster/join-tokens', { method: 'POST', body: { ttl_seconds: seconds, ...local } }
    )
    if (ctx.out.json) return ctx.out.value(made)
    ctx.out.line(made.token)
    const own = options['local'] === true
    const where = own ? 'this machine' : 'the other machine'
    ctx.err.line(`Run once on ${where}, within ${formatDuration(seconds)} (until ${made.expires}):`)
    ctx.err.line(`  ${own ? await localCommand(ctx, made.token) : made.command}`)
  }
} satisfies Verb

/** The command that starts another node on this machine, in a free home and on free ports. */
async function localCommand (ctx: VerbContext, token: string): Promise<string> {
  const { home, io, client } = ctx
  let [n, port] = [2, Number(new URL(client.url).port) + 2]
  while (existsSync(`${home}-${n}`)) n++
  while (port < 65534 && await devPorts(ctx, 1, port).then(() => false, () => true)) port += 2
  return `SVC_JOIN=${token} ${programIn(io.cwd)} up --home ${shellWord(`${home}-${n}`)} --port ${port} ` +
    `--name ${shellWord(`${hostname()}-${n}`)}`
}

async function list ({ client, out }: VerbContext): Promise<void> {
  const body = await client.json<{ tokens: JoinTokenRecord[] }>('/cluster/join-tokens')
  if (out.json) out.value(body)
  else out.table(['ID', 'EXPIRES', 'CREATED BY'], body.tokens.map(({ id, expires, by }) => [id, expires, by]))
}

async function revoke ({ client, out }: VerbContext, id: string): Promise<void> {
  const answer = await client.json(`/cluster/join-tokens/${encodeURIComponent(id)}`, { method: 'DELETE' })
  if (out.json) out.value(answer)
  else out.line(`the join token ${id} is revoked`)
}
