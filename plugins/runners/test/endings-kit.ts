import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import type { LocalInstance } from '../instances/document.js'
import { InstanceShutdown, type EndingsParts } from '../instances/shutdown.js'
import type { RingInstance } from '../instances/sections.js'
import { bodyOf } from '../instances/shapes.js'
import { card, soloInstance } from './samples.js'

/** A node that leads instances but has no runners. */
export interface EndingsNode {
  endings: InstanceShutdown
  clock: ManualClock
  /** The instances whose first rank is on the node; the test changes them. */
  led: LocalInstance[]
  outstanding: number
  /** Notifies the plugin of a change to the document. */
  changed (): void
}

export function endings (over: Partial<EndingsParts> & { warned? (): void }): EndingsNode {
  const clock = manualClock()
  const led: LocalInstance[] = []
  const node = { clock, led, outstanding: 0, changed () {} } as unknown as EndingsNode
  const { warned = () => {} } = over
  node.endings = new InstanceShutdown({
    nodeId: 'n',
    clock,
    log: { debug () {}, info () {}, warn: warned, error () {}, fatal () {} },
    cluster: { nodes: () => [], resolve: () => undefined },
    sections: {
      instances: {
        entries: () => [],
        observe: (fn: () => void) => { node.changed = fn; return () => {} }
      },
      runners: { get: () => undefined }
    } as never,
    led: () => led,
    fleet: { get: () => ({}) as never, ready: () => true },
    outstanding: () => node.outstanding,
    reconcile: async () => {},
    remove: async () => {},
    drain: async () => {},
    unloaded () {},
    ...over
  })
  return node
}

export function ledBy (instanceId: string, runnerId: string, more: Partial<RingInstance>): LocalInstance {
  const ring = bodyOf(soloInstance({ instanceId, runnerId, nodeId: 'n' }, card('svc/m')))
  return { ring: { ...ring, ...more }, assignment: { instanceId, runnerId, modelId: 'svc/m' } }
}
