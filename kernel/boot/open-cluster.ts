import { isClusterPlugin } from '../api/cluster.js'
import { BootError } from '../api/errors.js'
import { openLoneCluster } from './lone-cluster.js'
import type { ClusterHost, ClusterOpening } from '../api/cluster.js'
import type { NodeLog } from '../observe/log.js'
import type { Setup } from '../plugins/load.js'

/** Opens the cluster plugin; without one, opens a single-node cluster or, to join, throws BootError. */
export async function openCluster (
  { order, off }: Setup, log: NodeLog, opening: Omit<ClusterOpening, 'log'>
): Promise<ClusterHost> {
  const plugin = order.find(isClusterPlugin)
  if (plugin !== undefined) return await plugin.open({ ...opening, log: log.child(plugin.manifest.name) })
  if (opening.join === undefined) return await openLoneCluster({ ...opening, log: log.child('kernel') })
  const why = off.find((one) => isClusterPlugin(one.plugin))?.message ?? 'The cluster plugin is missing.'
  throw new BootError([`this node cannot join a cluster. ${why}`])
}

type Emit = (kind: string, payload: Record<string, unknown>) => void

/** Buffers cluster events until the event bus exists. */
export function createEventQueue (): { emit: Emit, open (to: Emit): void } {
  const held: Parameters<Emit>[] = []
  let emit: Emit = (kind, payload) => { held.push([kind, payload]) }
  return {
    emit: (kind, payload) => { emit(kind, payload) },
    open (to) {
      emit = to
      for (const event of held.splice(0)) to(...event)
    }
  }
}
