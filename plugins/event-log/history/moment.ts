import { kernelError } from '../../../kernel/index.js'
import { invalid, readPoint } from '../query.js'
import type { Moment } from '../store/types.js'

/** Where the log is now: the newest index, and the time, ms since 1970. */
export interface Now { readonly idx: number, readonly ms: number }

/**
 * Reads `at`: an index or a time (ISO-8601). Throws `invalid_request` naming it for anything else and for a
 * time that is still to come, `not_recorded` for an index that is.
 */
export function readMoment (text: string, now: Now): Moment {
  const moment = readPoint('at', text)
  if ('idx' in moment && moment.idx > now.idx) {
    throw kernelError('not_recorded', `There is no index ${moment.idx} yet: the newest is ${now.idx}.`,
      { param: 'at', newest: now.idx })
  }
  if ('ms' in moment && moment.ms > now.ms) {
    const seconds = Math.ceil((moment.ms - now.ms) / 1000)
    throw invalid('at', `at is ${text}, ${seconds} s in the future: this node's clock says ${iso(now.ms)}`)
  }
  return moment
}

/** A time as it is shown. */
export const iso = (ms: number): string => new Date(ms).toISOString()
