import type { NodeView } from '../../kernel/index.js'
import type { Instance } from './shapes.js'

/** A node must be missing for so long before its instances are given up, ms. */
export const MISSING_MS = 10_000
/** After a change of session nobody is given up for being silent: the links are only being made, ms. */
export const SESSION_GRACE_MS = 60_000

/**
 * Keeps track of nodes that instances name and that are not there. Time is an argument; feed it on the master
 * from time to time.
 */
export class LostNodes {
  readonly #missing = new Map<string, number>()

  /**
   * The instances whose node is gone for good: missing for long enough, or started anew under another id.
   * `sessionAgeMs` is the age of the session.
   */
  gone (
    instances: Iterable<Instance>, nodes: readonly NodeView[], now: number, sessionAgeMs: number
  ): string[] {
    const live = new Set(nodes.filter((n) => n.live).map((n) => n.nodeId))
    const known = new Set(nodes.map((n) => n.nodeId))
    const named = new Set<string>()
    const lost: string[] = []
    for (const { RingInstance: { instanceId, shardAssignments } } of instances) {
      const ids = Object.keys(shardAssignments.nodeToRunner)
      for (const id of ids) named.add(id)
      const over = (id: string): boolean => !known.has(id) ||
        (!live.has(id) && sessionAgeMs >= SESSION_GRACE_MS && this.#missingFor(id, now) >= MISSING_MS)
      if (ids.some(over)) lost.push(instanceId)
    }
    for (const id of this.#missing.keys()) if (live.has(id) || !named.has(id)) this.#missing.delete(id)
    return lost
  }

  #missingFor (id: string, now: number): number {
    const since = this.#missing.get(id) ?? now
    this.#missing.set(id, since)
    return now - since
  }
}
