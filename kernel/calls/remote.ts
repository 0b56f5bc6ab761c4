import { kernelError, SvcError } from '../api/errors.js'
import { unreachable } from './remote-errors.js'
import { RemoteCalls } from './remote-calls.js'
import { RemoteListings } from './remote-listing.js'
import type { Clock } from '../api/clock.js'
import type { Caller, NodeInfo } from '../api/plugin.js'
import type { Cluster, NodeView } from '../api/services.js'
import type { Origin } from './calls.js'
import type { CallRequest } from './invoke.js'
import type { CapabilityLimits } from './limits.js'
import type { Capability, Listing } from './registry.js'

export interface RemoteOptions {
  clock: Clock
  node: Pick<NodeInfo, 'nodeId' | 'installId'>
  limits: CapabilityLimits
  cluster: Cluster | undefined
  /** The install id of a node that serves what this one does not. */
  elsewhere (capabilityId: string): string | null
}

/** The capabilities of other nodes: which node serves a call, what it can do, and calling it. */
export class Remote {
  readonly #options: RemoteOptions
  readonly #listings: RemoteListings | undefined
  readonly #calls: RemoteCalls | undefined

  constructor (options: RemoteOptions) {
    const { clock, limits, cluster } = options
    this.#options = options
    if (cluster === undefined) return
    const listings = new RemoteListings(cluster, clock)
    this.#listings = listings
    this.#calls = new RemoteCalls({ cluster, clock, limits, stale: (id) => { listings.forget(id) } })
  }

  /**
   * The node that is to serve a call: the one it names, else one that advertises the capability when no
   * plugin of this node has it; null is this node. What another node passed on stays here, so that no call
   * goes in circles. Throws `node_not_found` and `unreachable`.
   */
  target ({ target_node: ref, capability_id: id }: CallRequest, origin: Origin): NodeView | null {
    const { cluster, elsewhere } = this.#options
    const viaMember = origin.viaMember === true
    if (ref !== undefined && ref !== null) return this.named(ref, viaMember, 'target_node')
    if (viaMember || cluster === undefined) return null
    const installId = elsewhere(id)
    const node = installId === null ? undefined : cluster.resolve(installId)
    return node === undefined || node.self || !node.live ? null : node
  }

  /** The live node of that name, null when it is this one. Throws `node_not_found` and `unreachable`. */
  named (ref: string, viaMember: boolean, param: string): NodeView | null {
    const { node: { nodeId, installId }, cluster } = this.#options
    if (ref === 'local' || ref === nodeId || ref === installId) return null
    const found = cluster?.resolve(ref)
    if (found?.self === true) return null
    if (found === undefined || viaMember) {
      throw kernelError('node_not_found',
        `No node "${ref.slice(0, 128)}" is known here; this node is ${nodeId}.`, { param, node_id: nodeId })
    }
    if (!found.live) throw unreachable(found, 'is a member, but cannot be reached at the moment')
    return found
  }

  /** What a node answers to GET /v1/capabilities. Throws `unreachable`, or the node's own error. */
  async listing (node: NodeView, caller: Caller, signal: AbortSignal): Promise<Listing> {
    return await this.#listings!.fresh(node, caller, signal)
  }

  /**
   * A capability of a node that `target` or `named` gave, as one that can be called here. Throws
   * `capability_not_found`, `version_mismatch`, `revision_mismatch`, `invalid_request`, `unreachable`.
   */
  async capability (node: NodeView, request: CallRequest, signal: AbortSignal): Promise<Capability> {
    const { listed, mediaType } = await knownEnd(this.#listings!.find(node, request, signal))
    return this.#calls!.capability(node, listed, mediaType, request)
  }
}

/** A client that goes away cancels, whatever its transport gave as the reason. */
async function knownEnd<T> (work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw error instanceof SvcError ? error : kernelError('cancelled', 'The client went away.')
  }
}
