import { resolve } from 'node:path'
import { IdentityError, identityInFiles, systemClock } from '../../../kernel/index.js'
import type { VerbContext } from '../../../kernel/cli/index.js'
import type { IdentitySource, ServerIdentity } from '../../../kernel/index.js'

const USAGE = 2
const FAILED = 1
const PERIOD_MS = 10_000

/** A relay's key and certificate, read from files that may be renewed while the relay runs. */
export interface RelayTls {
  readonly first: ServerIdentity
  /** Calls `show` whenever the files are renewed; returns a function that stops watching. */
  watch (show: (identity: ServerIdentity) => void): () => void
}

/** Reads the TLS options; undefined if none is set. Throws CliError for unusable ones. */
export function tlsOptions (ctx: VerbContext, options: Record<string, unknown>): RelayTls | undefined {
  const [key, cert] = [options['tlsKey'], options['tlsCert']]
  if (key === undefined && cert === undefined) return undefined
  if (key === undefined || cert === undefined) {
    throw ctx.fail(USAGE, '--tls-key and --tls-cert must be given together')
  }
  const at = (path: unknown): string => resolve(ctx.io.cwd, String(path))
  const source = identityInFiles({ key: at(key), cert: at(cert) }, systemClock.now)
  return {
    first: firstOf(ctx, source),
    watch: (show) => systemClock.every(PERIOD_MS, () => {
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
    throw ctx.fail(FAILED, `--tls-key, --tls-cert: ${error.message}`)
  }
}
