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
export interface ReconcileParts {
  desired (): Assignment[]
  present (): string[]
  /** Resolves when what was desired before the call is acknowledged; rejects when that is not known. */
  settled (): Promise<void>
  start (assignment: Assignment): void
  stop (runnerId: string): Promise<void>
  /** A pass broke off; the next one looks again. */
  failed (error: unknown): void
}

/**
 * The loop that makes the runners what the instances say: it looks at what is, so first placement, restart
 * and failover are the same pass. One pass at a time; the returned promise resolves when a pass that began
 * after the call has ended, and never rejects. A master that is being replaced may hold entries that the
 * cluster never takes, so a pass waits until its entries are acknowledged. Memory is given back before new
 * runners take theirs: stops come first.
 */
export function createReconciler (parts: ReconcileParts): () => Promise<void> {
  let tail = Promise.resolve()
  let queued = false
  const pass = async (): Promise<void> => {
    queued = false
    const seen = plan(parts.desired(), parts.present())
    if (seen.stop.length === 0 && seen.start.length === 0) return
    await parts.settled()
    // Only what was there before and after that is decided for good.
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
