import type { Releasing } from '../service.js'
import { bodyOf } from './shapes.js'
import type { Instance } from './shapes.js'

/** So many removed instances are watched, the newest. */
const WATCHED_MAX = 64
/** So long after a removal the readings of a node may still show its memory in use, ms. */
export const SETTLING_MS = 3000
/** A runner that has not ended by then gives nothing back any more, ms. */
const WATCHED_MS = 60_000

interface Removed { instance: Instance, mono: number }

/** Remembers what was removed lately. Times are monotonic ms and an argument. */
export class Removals {
  #there = new Map<string, Instance>()
  readonly #removed = new Map<string, Removed>()

  /** Tells which instances there are now. */
  update (instances: Iterable<Instance>, mono: number): void {
    const now = new Map([...instances].map((instance) => [bodyOf(instance).instanceId, instance]))
    for (const [id, instance] of this.#there) if (!now.has(id)) this.#removed.set(id, { instance, mono })
    // A new session may learn of them a moment later.
    for (const id of now.keys()) this.#removed.delete(id)
    for (const id of [...this.#removed.keys()].slice(0, -WATCHED_MAX)) this.#removed.delete(id)
    this.#there = now
  }

  /** True just after a removal: what nodes say of their memory may be older. */
  settling (mono: number): boolean {
    return [...this.#removed.values()].some((removed) => mono - removed.mono < SETTLING_MS)
  }

  /** Those with nodes on which `ends` says that their runner has not gone yet. */
  view (mono: number, ends: (nodeId: string, runnerId: string) => boolean): Releasing[] {
    for (const [id, removed] of this.#removed) {
      if (mono - removed.mono >= WATCHED_MS) this.#removed.delete(id)
    }
    return [...this.#removed.values()].flatMap(({ instance }) => {
      const { nodeToRunner } = bodyOf(instance).shardAssignments
      const nodeIds = Object.entries(nodeToRunner)
        .filter(([nodeId, runnerId]) => ends(nodeId, runnerId))
        .map(([nodeId]) => nodeId)
      return nodeIds.length === 0 ? [] : [{ instance, nodeIds }]
    })
  }
}
