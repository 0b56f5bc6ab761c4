import type { NodeReport } from '../../../kernel/index.js'
import type { Instance } from '../../runners/service.js'
import { idOf, ranksOf } from '../place/instance.js'
import { SUSPECT_MS } from './lost-nodes.js'

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
