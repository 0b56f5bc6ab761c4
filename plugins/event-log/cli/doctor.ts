import { fail, isVerbError, ok, plain, warn } from '../../../kernel/cli/index.js'
import type { Check, Checker } from '../../../kernel/cli/index.js'

export interface EventLogHead { mode: string, counted: number, firstIdx: number, nextIdx: number }

export default {
  async run ({ look }) {
    const head = await look<EventLogHead>('/events?limit=1')
    return isVerbError(head) ? [] : [checkEventLog(head)]
  }
} satisfies Checker

/** Whether what happens is written down. */
export function checkEventLog ({ mode, counted, firstIdx, nextIdx }: EventLogHead): Check {
  const kept = `events ${firstIdx} to ${nextIdx - 1} are kept`
  if (mode === 'normal') return ok('event log', nextIdx <= firstIdx ? 'no events yet' : kept)
  if (mode === 'counting-only') {
    return fail('event log', `events are only counted, not written (${counted} so far): the disk is full`,
      'Free space on the volume of the home: `svc purge`; with 2.5 GiB free it ends by itself.',
      { code: 'event_log_counting' })
  }
  return warn('event log', `${plain(mode)}: ${kept}`, 'Its log says why: `svc logs --grep "event log"`.',
    { code: 'event_log_memory' })
}
