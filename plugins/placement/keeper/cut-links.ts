import type { NodeReport } from '../../../kernel/index.js'
import type { Instance } from '../../runners/service.js'
import { idOf, ranksOf } from '../place/instance.js'
import { SUSPECT_MS } from './lost-nodes.js'

/** Links over which instances can work no more. */
export interface CutLinkChanges {
  /** By instance id, what is cut as a sentence. */
  cut: Map<string, string>
  /** Ms until another cut has lasted long enough; null when there is none. */
  nextMs: number | null
}

/**
 * Watches the links between drivers and their donors. The master may reach both ends of one that is cut, so
 * that no node counts as lost; the model cannot come back there before the link does. Time is an argument.
 */
export class CutLinks {
  readonly #since = new Map<string, number>()

  /** The instances with a link that is cut for as long as a suspicion lasts. `now` is monotonic, ms. */
  look (instances: readonly Instance[], nodes: readonly NodeReport[], now: number): CutLinkChanges {
    const live = new Map(nodes.filter(({ view }) => view.live).map((node) => [node.view.nodeId, node]))
    const cuts = instances.flatMap((instance) => spokesOf(instance).flatMap(([from, to]) => {
      const [driver, donor] = [live.get(from), live.get(to)]
      if (driver === undefined || donor === undefined || linked(driver, donor)) return []
      const [a, b] = [driver.view.name, donor.view.name]
      return [{ id: idOf(instance), pair: `${from} ${to}`, text: `The link between ${a} and ${b} is cut.` }]
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

/** Pairs of nodes that an instance needs a link between: its driver and each of its donors. */
function spokesOf (instance: Instance): [driver: string, donor: string][] {
  if (!('LlamaRpcInstance' in instance)) return []
  const { driverNode } = instance.LlamaRpcInstance
  return ranksOf(instance).filter(({ nodeId }) => nodeId !== driverNode)
    .map(({ nodeId }) => [driverNode, nodeId])
}

/** False only where both tell of links, as every live node has some, and either leaves this one out. */
function linked (one: NodeReport, other: NodeReport): boolean {
  const tells = (from: NodeReport, to: NodeReport): boolean =>
    from.links.some(({ nodeId }) => nodeId === to.view.nodeId)
  return one.links.length === 0 || other.links.length === 0 || (tells(one, other) && tells(other, one))
}
