import { fail, isVerbError, ok, plain, warn, type Check, type Checker } from '../../../kernel/cli/index.js'

export interface EventLogHead { mode: string, counted: number, firstIdx: number, nextIdx: number }

export default {
  async run ({ look }) {
    const head = await look<EventLogHead>('/events?limit=1')
    return isVerbError(head) ? [] : [checkEventLog(head)]
  }
} satisfies Checker

export function checkEventLog ({ mode, counted, firstIdx, nextIdx }: EventLogHead): Check {
  const kept = `events ${firstIdx} to ${nextIdx - 1} are stored`
  if (mode === 'normal') return ok('event log', nextIdx <= firstIdx ? 'no events yet' : kept)
  if (mode === 'counting-only') {
    return fail('event log', `events are counted but not stored (${counted} so far): the disk is full`,
      'Free disk space on the volume of the home: `svc purge`; writing resumes at 2.5 GiB free.',
      { code: 'event_log_counting' })
  }
  return warn('event log', `${plain(mode)}: ${kept}`, 'See its log: `svc logs --grep "event log"`.',
    { code: 'event_log_memory' })
}
