import { IdentityError, type IdentitySource, type ServerIdentity } from './identity.js'
import type { Clock } from '../../api/clock.js'
import type { Logger } from '../../api/plugin.js'
import type { Health } from '../../plugins/health.js'

/** Milliseconds between checks for a new identity. */
const PERIOD_MS = 10_000
const DAY_MS = 24 * 60 * 60 * 1000
/** Milliseconds before a certificate's expiry to warn; public authorities would have renewed it by then. */
const ENDING_MS = 14 * DAY_MS

export interface WatchOptions {
  source: IdentitySource
  first: ServerIdentity
  clock: Clock
  log: Logger
  health: Pick<Health, 'raise' | 'clear'>
  /** Presents another identity on new connections. */
  show: (identity: ServerIdentity) => void
}

/** Applies the source's new identities and warns before one expires. Returns a function that ends this. */
export function watchIdentity ({ source, first, clock, log, health, show }: WatchOptions): () => void {
  let { until } = first
  const look = (): void => {
    try {
      const next = source.next()
      if (next !== null) {
        show(next)
        until = next.until
        log.info({ fingerprint: next.fingerprint, until: new Date(until).toISOString() },
          'the certificate was replaced')
        health.clear('certificate_unusable')
      }
    } catch (error) {
      if (!(error instanceof IdentityError)) throw error
      health.raise('certificate_unusable', `${error.message}.`)
      log.warn({}, `the certificate was not replaced: ${error.message}`)
    }
    const left = until - clock.now()
    if (left > ENDING_MS) health.clear('certificate_ending')
    else health.raise('certificate_ending', ending(until, left))
  }
  look()
  return clock.every(PERIOD_MS, look)
}

function ending (until: number, left: number): string {
  const at = new Date(until).toISOString().slice(0, 16).replace('T', ' ')
  const days = Math.ceil(left / DAY_MS)
  return left <= 0 ? `It expired at ${at} UTC.` : `It expires at ${at} UTC, in ${days} days.`
}
