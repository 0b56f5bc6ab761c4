import type { Clock, Logger } from '../../../kernel/index.js'
import type { Models } from '../../staging/service.js'
import type { Drivers } from '../donors/driver.js'
import type { Detection } from '../machine/detection.js'
import { reasonOf } from '../process/errors.js'
import type { ModelLeases } from './copies.js'
import type { Fleet } from './fleet.js'
import type { Assignment } from './shapes.js'

/** What has to change so that exactly the desired runners are there. */
export interface Plan {
  start: Assignment[]
  stop: string[]
}

/** Compares what the instances ask of this node with the runners that are there. Pure and idempotent. */
export function plan (desired: readonly Assignment[], present: readonly string[]): Plan {
  const wanted = new Set(desired.map(({ runnerId }) => runnerId))
  const there = new Set(present)
  return {
    start: desired.filter(({ runnerId }) => !there.has(runnerId)),
    stop: present.filter((runnerId) => !wanted.has(runnerId))
  }
}

/** What the loop works on. */
interface ReconcileParts {
  desired (): Assignment[]
  present (): string[]
  /** Resolves when what was desired before the call is acknowledged; rejects when that is not known. */
  settled (): Promise<void>
  start (assignment: Assignment): void
  stop (runnerId: string): Promise<void>
  /** A pass threw; the next one starts from scratch. */
  failed (error: unknown): void
}

/**
 * The reconciler: it starts and stops runners until they match the instances. It only compares what is with
 * what should be, so first placement, restart and failover are the same pass. One pass runs at a time; the
 * returned promise resolves when a pass that began after the call has ended, and never rejects. A master that
 * is being replaced may have entries that the cluster never accepts, so a pass waits until they are
 * acknowledged. Stops come first, so that their memory is free for new runners.
 */
export function createReconciler (parts: ReconcileParts): () => Promise<void> {
  let tail = Promise.resolve()
  let queued = false
  const pass = async (): Promise<void> => {
    queued = false
    const seen = plan(parts.desired(), parts.present())
    if (seen.stop.length === 0 && seen.start.length === 0) return
    await parts.settled()
    // Act only on differences that were there before and after the wait.
    const now = plan(parts.desired(), parts.present())
    const stop = now.stop.filter((runnerId) => seen.stop.includes(runnerId))
    const start = now.start.filter(({ runnerId }) => seen.start.some((other) => other.runnerId === runnerId))
    await Promise.all(stop.map((runnerId) => parts.stop(runnerId)))
    for (const assignment of start) parts.start(assignment)
  }
  return () => {
    if (!queued) {
      queued = true
      tail = tail.then(pass).catch(parts.failed)
    }
    return tail
  }
}

/** What the reconciler of a node works on. */
interface ReconcilerParts {
  clock: Clock
  log: Logger
  /** Backends of this node can be chosen once it is probed. */
  detection: Pick<Detection, 'probed'>
  models: Pick<Models, 'opened'> | undefined
  settled: ReconcileParts['settled']
  fleet: Pick<Fleet, 'members' | 'start' | 'stop'>
  leases: Pick<ModelLeases, 'release'>
  drivers: Pick<Drivers, 'release'>
  prune (): Promise<void>
  /** Aborts when the plugin stops. */
  closing: AbortSignal
  desired (): Assignment[]
}

const AGAIN_MS = 1000

/** The reconciler of this node. It starts nothing before disks and hardware have been looked at. */
export function openReconciler (parts: ReconcilerParts): () => Promise<void> {
  const { models, detection, log, clock, fleet, leases, drivers, prune, closing, desired } = parts
  let opened = false
  const closed = new Promise<void>((resolve) => {
    closing.addEventListener('abort', () => { resolve() })
  })
  const reconcile = createReconciler({
    // Until then no model can be found, and no backend chosen.
    desired: () => (opened ? desired() : []),
    present: () => fleet.members().map(({ assignment }) => assignment.runnerId),
    settled: async () => { if (!closing.aborted) await Promise.race([parts.settled(), closed]) },
    start (assignment) { fleet.start(assignment) },
    async stop (runnerId) {
      await fleet.stop(runnerId)
      drivers.release(runnerId)
      leases.release(runnerId)
      await prune()
    },
    failed (error) {
      const what = 'the runners could not be brought in line with the instances; tried again'
      log.warn({ error: reasonOf(error) }, what)
      const cancel = clock.after(AGAIN_MS, () => { void reconcile() })
      closing.addEventListener('abort', cancel)
    }
  })
  void Promise.all([detection.probed, models?.opened]).then(async () => {
    opened = true
    await reconcile()
  })
  return reconcile
}
