import type { Clock, Section } from '../../../kernel/index.js'
import { kindOf, serves } from '../process/states.js'
import type { RunnerStatus } from '../service.js'
import type { InstanceFailure } from './sections.js'

/** Minimum ms between writes of progress and Ready/Running changes; other changes are written immediately. */
const STATUS_COALESCE_MS = 500
/** Limit on the instance failures kept per node and shown in /state; the oldest are dropped. */
const FAILURES_MAX = 64

export type RunnerStatuses = ReturnType<typeof createStatuses>

/**
 * The statuses of this node's runners. Every change is stored in memory. Loading progress and changes between
 * ready and running are written to the document at most twice a second, because a busy runner changes many
 * times a second and the document stores a history of its writes.
 */
export function createStatuses (section: Section<RunnerStatus>, clock: Clock) {
  const statuses = new Map<string, RunnerStatus>()
  const waiting = new Map<string, () => void>()
  const settle = (runnerId: string): void => {
    waiting.get(runnerId)?.()
    waiting.delete(runnerId)
  }
  const write = (runnerId: string): void => {
    settle(runnerId)
    const status = statuses.get(runnerId)
    if (status !== undefined) section.put(runnerId, status)
  }
  return {
    /** Sets a status. Returns true if the runner entered a new stage, which is emitted as an event. */
    set (runnerId: string, status: RunnerStatus): boolean {
      const moved = movedOn(statuses.get(runnerId), status)
      statuses.set(runnerId, status)
      if (moved) write(runnerId)
      else if (!waiting.has(runnerId)) {
        waiting.set(runnerId, clock.after(STATUS_COALESCE_MS, () => { write(runnerId) }))
      }
      return moved
    },
    get: (runnerId: string): RunnerStatus | undefined => statuses.get(runnerId),
    remove (runnerId: string): void {
      settle(runnerId)
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

export type Failures = ReturnType<typeof createFailures>

/**
 * The failures recorded by all known nodes. Each node writes only its own: one per instance, at most 64.
 * `newId` creates the keys of the entries.
 */
export function createFailures (section: Section<InstanceFailure>, nodeId: string, newId: () => string) {
  const newestFirst = (only?: string): { key: string, value: InstanceFailure }[] =>
    [...section.entries()].filter((entry) => only === undefined || entry.nodeId === only).reverse()
      .sort((a, b) => b.value.recordedAt.localeCompare(a.value.recordedAt))
  return {
    record (failure: InstanceFailure): void {
      for (const [n, { key, value }] of newestFirst(nodeId).entries()) {
        if (n >= FAILURES_MAX - 1 || value.instanceId === failure.instanceId) section.remove(key)
      }
      section.put(newId(), failure)
    },
    /** The failures, newest first, at most 64. */
    view: (): InstanceFailure[] => newestFirst().slice(0, FAILURES_MAX).map(({ value }) => value)
  }
}
