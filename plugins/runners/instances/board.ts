import type { Clock, Section } from '../../../kernel/index.js'
import { STATUS_COALESCE_MS } from '../limits.js'
import { kindOf, serves } from '../process/states.js'
import type { RunnerStatus } from '../service.js'

/** The statuses of this node's runners: exact in memory, thinned out in the document. */
export interface StatusBoard {
  /** Takes a new status. True when the runner moved on in its lifecycle, which is worth an event. */
  set (runnerId: string, status: RunnerStatus): boolean
  get (runnerId: string): RunnerStatus | undefined
  remove (runnerId: string): void
}

/**
 * Every write to the document stays in its history, and a busy runner changes between ready and running
 * many times a second: such changes, and loading progress, are written at most twice a second.
 */
export function createBoard (section: Section<RunnerStatus>, clock: Clock): StatusBoard {
  const statuses = new Map<string, RunnerStatus>()
  const waiting = new Map<string, () => void>()
  const write = (runnerId: string): void => {
    waiting.get(runnerId)?.()
    waiting.delete(runnerId)
    const status = statuses.get(runnerId)
    if (status !== undefined) section.put(runnerId, status)
  }
  return {
    set (runnerId, status) {
      const moved = movedOn(statuses.get(runnerId), status)
      statuses.set(runnerId, status)
      if (moved) write(runnerId)
      else if (!waiting.has(runnerId)) {
        waiting.set(runnerId, clock.after(STATUS_COALESCE_MS, () => { write(runnerId) }))
      }
      return moved
    },
    get: (runnerId) => statuses.get(runnerId),
    remove (runnerId) {
      waiting.get(runnerId)?.()
      waiting.delete(runnerId)
      statuses.delete(runnerId)
      section.remove(runnerId)
    }
  }
}

function movedOn (before: RunnerStatus | undefined, after: RunnerStatus): boolean {
  if (before === undefined) return true
  const from = kindOf(before)
  const to = kindOf(after)
  return from !== to && !(serves(from) && serves(to))
}
