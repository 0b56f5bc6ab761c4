import { CliError } from '../errors.js'
import { readSpan, showSpan } from '../units.js'
import type { Verb } from '../verb.js'

const DEFAULT_TTL = '15m'

export default {
  async run (ctx, _args, options) {
    const given = (options['ttl'] as string | undefined) ?? DEFAULT_TTL
    const seconds = readSpan(given)
    if (seconds === undefined || seconds === 0) {
      throw ctx.fail(2, `--ttl ${given}: expected a span such as 90s, 15m, 2h or 1d`)
    }
    const local = options['local'] === true ? { local: true } : {}
    const made = await ctx.client.json<{ token: string, expires: string, command: string }>(
      '/cluster/join-tokens', { method: 'POST', body: { ttl_seconds: seconds, ...local } }
    ).catch((error: unknown) => { throw withRemedy(error) })
    if (ctx.out.json) {
      ctx.out.value(made)
      return
    }
    ctx.out.line(made.token)
    const where = options['local'] === true
      ? 'this machine, with a --home and a --port of its own'
      : 'the other machine'
    ctx.err.line(`On ${where}, within ${showSpan(seconds)} (until ${made.expires}), once:`)
    ctx.err.line(`  ${made.command}`)
  }
} satisfies Verb

/** A node that only listens on loopback cannot be joined from elsewhere: the error says what to change. */
function withRemedy (error: unknown): unknown {
  if (!(error instanceof CliError) || error.api?.reason !== 'loopback_only') return error
  if (error.message.includes('--host')) return error
  const { exitCode, api, status } = error
  return new CliError(exitCode, `${error.message}\n  Restart the node with \`svc up --host ADDRESS\`, ` +
    'an address that the other machine reaches, and ask again.',
  { api, ...(status === undefined ? {} : { status }) })
}
