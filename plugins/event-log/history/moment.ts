import { kernelError } from '../../../kernel/index.js'
import type { SvcError } from '../../../kernel/index.js'
import type { Moment } from './recent.js'

/** Where the log is now: the newest index, and the time, ms since 1970. */
export interface Now { readonly idx: number, readonly ms: number }

/**
 * Reads `at`: an index or a time (ISO-8601). Throws `invalid_request` naming it for anything else and for a
 * time that is still to come, `not_recorded` for an index that is.
 */
export function readMoment (text: string, now: Now): Moment {
  if (/^\d{1,15}$/.test(text)) {
    const idx = Number(text)
    if (idx <= now.idx) return { idx }
    throw kernelError('not_recorded', `There is no index ${idx} yet: the newest is ${now.idx}.`,
      { param: 'at', newest: now.idx })
  }
  const ms = /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:?\d{2})?)?$/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(ms)) {
    throw invalid(`at is "${text}": it must be an index such as 1200 or a time such as 2026-01-31T08:00:00Z`)
  }
  if (ms > now.ms) {
    const seconds = Math.ceil((ms - now.ms) / 1000)
    throw invalid(`at is ${text}, ${seconds} s in the future: this node's clock says ${iso(now.ms)}`)
  }
  return { ms }
}

/** A time as it is shown. */
export const iso = (ms: number): string => new Date(ms).toISOString()

function invalid (message: string): SvcError {
  return kernelError('invalid_request', `The request is not valid: ${message}.`,
    { param: 'at', issues: [{ path: 'at', message }] })
}
