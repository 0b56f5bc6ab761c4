import { resolve } from 'node:path'
import { randomBytes } from 'node:crypto'
import { readNumber, type Verb, type VerbContext } from '../../../kernel/cli/index.js'
import { systemClock, IdentityError, identityInFiles } from '../../../kernel/index.js'
import { relayLimits } from '../server/limits.js'
import { startRelay } from '../server/relay.js'
import { listening, stopped } from './line.js'
import type { IdentitySource, ServerIdentity } from '../../../kernel/index.js'

const PERIOD_MS = 10_000
const PORT = 52420

export default {
  async run (ctx, _args, options) {
    const host = String(options['host'] ?? '127.0.0.1')
    const tls = tlsOptions(ctx, options)
    const port = readNumber(ctx, '--port', options['port'], { min: 0, max: 65_535 }) ?? PORT
    const relay = await listening(ctx, { host, port }, () => startRelay({
      host, port, ...tls === undefined ? {} : { tls: tls.first },
      proxied: options['behindProxy'] === true, limits: relayLimits, clock: systemClock, random: randomBytes
    }))
    const name = host.includes(':') ? `[${host}]` : host
    const url = `${tls === undefined ? 'http' : 'https'}://${name}:${relay.port}`
    if (ctx.out.json) ctx.out.value({ url, pid: process.pid })
    else {
      ctx.out.line(`relay at ${url}`)
      ctx.err.line(`to connect a node:  svc config set relay.url ${url}  and restart it`)
    }
    const unwatch = tls?.watch((identity) => { relay.show(identity) })
    await stopped(ctx)
    unwatch?.()
    await relay.close()
  }
} satisfies Verb

/** Reads key and certificate from the files in the options, if any. Throws CliError for unusable ones. */
function tlsOptions (ctx: VerbContext, options: Record<string, unknown>) {
  const [key, cert] = [options['tlsKey'], options['tlsCert']]
  if (key === undefined && cert === undefined) return undefined
  if (key === undefined || cert === undefined) {
    throw ctx.fail(2, '--tls-key and --tls-cert must be given together')
  }
  const at = (path: unknown): string => resolve(ctx.io.cwd, String(path))
  const source = identityInFiles({ key: at(key), cert: at(cert) }, systemClock.now)
  return {
    first: firstOf(ctx, source),
    /** Calls `show` whenever the files are renewed; returns a function that stops watching. */
    watch: (show: (identity: ServerIdentity) => void) => systemClock.every(PERIOD_MS, () => {
      try {
        const next = source.next()
        if (next !== null) show(next)
      } catch (error) {
        ctx.err.line(`the certificate was not replaced: ${(error as Error).message}`)
      }
    })
  }
}

function firstOf (ctx: VerbContext, source: IdentitySource): ServerIdentity {
  try {
    return source.next()!
  } catch (error) {
    if (!(error instanceof IdentityError)) throw error
    throw ctx.fail(1, `--tls-key, --tls-cert: ${error.message}`)
  }
}
