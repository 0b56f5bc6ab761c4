import type { NodeView, NodeReport } from '../../../kernel/index.js'
import { nodesOf, idOf, ranksOf } from '../place/instance.js'
import type { Instance } from '../../runners/service.js'

/** Milliseconds after which the instances of a missing node are placed elsewhere. */
export const MISSING_MS = 3000
/** Longer limit in ms for a node that other nodes still reach: only its link to the master may be down. */
export const SUSPECT_MS = 30_000
/** Milliseconds after a session starts during which no node counts as lost: nodes are still connecting. */
export const SESSION_GRACE_MS = 3000

export interface LostNodesResult {
  gone: Set<string>
  /** Milliseconds until the next missing node counts as lost; null if no node is missing. */
  nextMs: number | null
}

/**
 * Tracks missing nodes. Callers pass the time. Call `look` regularly on every node, so that a new master
 * knows when each node went missing.
 */
export class LostNodes {
  readonly #missing = new Map<string, number>()

  /**
   * The lost nodes: missing for long enough, or restarted under another id. While a node is missing, an
   * unknown id waits too, since it may be that node's. `reached`: ids of nodes that other nodes still reach.
   */
  look (
    instances: readonly Instance[], nodes: readonly NodeView[], now: number, sessionAgeMs: number,
    reached: ReadonlySet<string> = new Set()
  ): LostNodesResult {
    const live = new Set(nodes.filter((n) => n.live).map((n) => n.nodeId))
    const known = new Set(nodes.map((n) => n.nodeId))
    const named = instances.flatMap(nodesOf)
    const absent = new Set([...known, ...named].filter((id) => !live.has(id)))
    for (const id of this.#missing.keys()) if (!absent.has(id)) this.#missing.delete(id)
    for (const id of absent) if (!this.#missing.has(id)) this.#missing.set(id, now)
    const allLive = live.size === known.size
    // A node that announced its stop counts as lost immediately.
    const leavers = new Set(nodes.filter((n) => n.leaving === true).map((n) => n.nodeId))
    const patience = (id: string): number => reached.has(id) ? SUSPECT_MS : MISSING_MS
    const left = (id: string): number => leavers.has(id) || (!known.has(id) && allLive)
      ? 0
      : Math.max(patience(id) - (now - this.#missing.get(id)!), SESSION_GRACE_MS - sessionAgeMs)
    const waits = [...absent].map((id) => ({ id, ms: left(id) }))
    const later = waits.filter(({ ms }) => ms > 0).map(({ ms }) => ms)
    return {
      gone: new Set(waits.filter(({ ms }) => ms <= 0).map(({ id }) => id)),
      nextMs: later.length === 0 ? null : Math.min(...later)
    }
  }
}

export interface CutLinkChanges {
  /** Descriptions of broken links, by instance id. */
  cut: Map<string, string>
  /** Milliseconds until another broken link has been down for SUSPECT_MS and so counts; null if none will. */
  nextMs: number | null
}

/**
 * Detects broken links between drivers and donors. The master may still reach both nodes, so neither counts
 * as lost, but the model cannot run there until the link is back. Callers pass the time.
 */
export class CutLinks {
  readonly #since = new Map<string, number>()

  /** Instances that need a link that has been down for SUSPECT_MS. `now` is in monotonic ms. */
  look (instances: readonly Instance[], nodes: readonly NodeReport[], now: number): CutLinkChanges {
    const live = new Map(nodes.filter(({ view }) => view.live).map((node) => [node.view.nodeId, node]))
    const cuts = instances.flatMap((instance) => spokesOf(instance).flatMap(([from, to]) => {
      const [driver, donor] = [live.get(from), live.get(to)]
      if (driver === undefined || donor === undefined || linked(driver, donor)) return []
      const [a, b] = [driver.view.name, donor.view.name]
      return [{ id: idOf(instance), pair: `${from} ${to}`, text: `The link between ${a} and ${b} is down.` }]
    }))
    const pairs = new Set(cuts.map(({ pair }) => pair))
    for (const pair of this.#since.keys()) if (!pairs.has(pair)) this.#since.delete(pair)
    for (const pair of pairs) if (!this.#since.has(pair)) this.#since.set(pair, now)
    const waits = cuts.map((one) => ({ ...one, ms: this.#since.get(one.pair)! + SUSPECT_MS - now }))
    const later = waits.filter(({ ms }) => ms > 0).map(({ ms }) => ms)
    return {
      cut: new Map(waits.filter(({ ms }) => ms <= 0).map(({ id, text }) => [id, text])),
      nextMs: later.length === 0 ? null : Math.min(...later)
    }
  }
}

/** The instance's links: pairs of the driver and each of its donors. */
function spokesOf (instance: Instance): [driver: string, donor: string][] {
  if (!('LlamaRpcInstance' in instance)) return []
  const { driverNode } = instance.LlamaRpcInstance
  return ranksOf(instance).filter(({ nodeId }) => nodeId !== driverNode)
    .map(({ nodeId }) => [driverNode, nodeId])
}

/** True unless both nodes report their links and at least one of them does not list the other. */
function linked (one: NodeReport, other: NodeReport): boolean {
  const tells = (from: NodeReport, to: NodeReport): boolean =>
    from.links.some(({ nodeId }) => nodeId === to.view.nodeId)
  return one.links.length === 0 || other.links.length === 0 || (tells(one, other) && tells(other, one))
}
