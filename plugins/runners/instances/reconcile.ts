import type { Clock, Logger } from '../../../kernel/index.js'
import { reasonOf } from '../process/errors.js'
import type { RunnerSet } from './runner-set.js'
import type { Assignment } from './shapes.js'

/** Milliseconds before the next pass after a failed one. */
const AGAIN_MS = 1000

export interface Plan { start: Assignment[], stop: string[] }

/** Compares the assignments of this node with its runners. Pure and idempotent. */
export function plan (desired: readonly Assignment[], present: readonly string[]): Plan {
  const wanted = new Set(desired.map(({ runnerId }) => runnerId))
  const there = new Set(present)
  return {
    start: desired.filter(({ runnerId }) => !there.has(runnerId)),
    stop: present.filter((runnerId) => !wanted.has(runnerId))
  }
}

export interface ReconcilerParts {
  clock: Clock
  log: Logger
  /** Resolves when models can be found and backends chosen; no runner starts before that. */
  opened: Promise<unknown>
  desired (): Assignment[]
  fleet: Pick<RunnerSet, 'members' | 'start' | 'stop'>
  /** Resolves when the cluster has acknowledged the current state; rejects if that cannot be confirmed. */
  settled (): Promise<void>
  /** Releases a runner's resources after its process has ended. */
  ended (runnerId: string): Promise<void>
  closing: AbortSignal
}

/**
 * Reconciles the runners of this node with its assignments; the same pass handles first placement, restart
 * and failover. One pass runs at a time. The promise resolves when a pass that began after the call has
 * ended, and never rejects. A master that is being replaced may have entries that the cluster never accepts,
 * so a pass waits for acknowledgement. Stops come first, so that their memory is free for new runners.
 */
export function createReconciler (parts: ReconcilerParts): () => Promise<void> {
  const { clock, log, fleet, ended, closing } = parts
  let opened = false
  let tail = Promise.resolve()
  let queued = false
  const closed = new Promise<void>((resolve) => {
    closing.addEventListener('abort', () => { resolve() })
  })
  const currentPlan = (): Plan =>
    plan(opened ? parts.desired() : [], fleet.members().map(({ assignment }) => assignment.runnerId))
  const pass = async (): Promise<void> => {
    queued = false
    const seen = currentPlan()
    if (seen.stop.length === 0 && seen.start.length === 0) return
    if (!closing.aborted) await Promise.race([parts.settled(), closed])
    // Act only on differences that exist both before and after the wait.
    const now = currentPlan()
    const stop = now.stop.filter((runnerId) => seen.stop.includes(runnerId))
    const start = now.start.filter(({ runnerId }) => seen.start.some((other) => other.runnerId === runnerId))
    await Promise.all(stop.map(async (runnerId) => {
      await fleet.stop(runnerId)
      await ended(runnerId)
    }))
    for (const assignment of start) fleet.start(assignment)
  }
  const again = (error: unknown): void => {
    log.warn({ error: reasonOf(error) }, 'the runners could not be reconciled with the instances; retrying')
    closing.addEventListener('abort', clock.after(AGAIN_MS, () => { void reconcile() }))
  }
  const reconcile = (): Promise<void> => {
    if (!queued) {
      queued = true
      tail = tail.then(pass).catch(again)
    }
    return tail
  }
  void parts.opened.then(async () => {
    opened = true
    await reconcile()
  })
  return reconcile
}
