import { kernelError, noSuchNode, SvcError } from '../api/errors.js'
import { raceAbort } from '../api/clock.js'
import { RemoteCalls } from './remote-calls.js'
import { isObject, parseJson } from '../api/schema.js'
import { askNode, fieldOf, unreachable } from './remote-request.js'
import { chooseVersion } from './registry.js'
import type { Clock } from '../api/clock.js'
import type { Caller, NodeInfo } from '../api/plugin.js'
import type { Cluster, NodeView } from '../api/services.js'
import type { Origin } from './origin.js'
import type { CallRequest } from './invoke.js'
import type { CapabilityLimits } from './limits.js'
import type { Capability, Listing } from './registry.js'

/** Names the media type of each capability in a listing that goes to another node. */
export const MEDIA_TYPES_HEADER = 'x-svc-media-types'

/** A capability as another node lists it. */
export type Listed = Listing['capabilities'][number]

interface RemoteListing { readonly listing: Listing, readonly mediaTypes: Readonly<Record<string, unknown>> }
interface Kept { readonly nodeId: string, readonly atMs: number, readonly value: RemoteListing }

/** How long a listing serves the calls that follow. */
const KEEP_MS = 10_000
const ANSWER_MS = 5000
/** In whose name this node looks up what a call needs to know. */
const SELF: Caller = { id: 'node', mode: 'direct', authorities: new Set(['read']) }

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
  readonly #calls: RemoteCalls | undefined
  /** What nodes listed, by install id. */
  readonly #kept = new Map<string, Kept>()
  readonly #underWay = new Map<string, Promise<RemoteListing>>()

  constructor (options: RemoteOptions) {
    const { clock, limits, cluster } = options
    this.#options = options
    if (cluster === undefined) return
    this.#calls = new RemoteCalls({ cluster, clock, limits, stale: (id) => { this.#kept.delete(id) } })
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
      throw noSuchNode(ref, cluster?.nodes(), `is known here; this node is ${nodeId}`,
        { param, node_id: nodeId })
    }
    if (!found.live) throw unreachable(found, 'is a member, but cannot be reached at the moment')
    return found
  }

  /** What a node answers to GET /v1/capabilities. Throws `unreachable`, or the node's own error. */
  async listing (node: NodeView, caller: Caller, signal: AbortSignal): Promise<Listing> {
    return this.#keep(node, await this.#fetch(node, caller, signal)).listing
  }

  /**
   * A capability of a node that `target` or `named` gave, as one that can be called here. Throws
   * `capability_not_found`, `version_mismatch`, `revision_mismatch`, `invalid_request`, `unreachable`.
   */
  async capability (node: NodeView, request: CallRequest, signal: AbortSignal): Promise<Capability> {
    const { listed, mediaType } = pick(await knownEnd(this.#listingFor(node, request, signal)), request)
    return this.#calls!.capability(node, listed, mediaType, request)
  }

  /** What was kept of the node where it has what is asked for, else what it says now. */
  async #listingFor (node: NodeView, request: CallRequest, signal: AbortSignal): Promise<RemoteListing> {
    const kept = this.#kept.get(node.installId)
    const { capability_id: id, version, descriptor_revision: revision } = request
    const fits = kept !== undefined && kept.nodeId === node.nodeId &&
      this.#options.clock.mono() - kept.atMs < KEEP_MS &&
      kept.value.listing.revisions[`${id}@${version}`] === revision
    return fits ? kept.value : await raceAbort(this.#shared(node), signal)
  }

  /** One request for all calls that wait for the same listing. */
  #shared (node: NodeView): Promise<RemoteListing> {
    const running = this.#underWay.get(node.installId)
    if (running !== undefined) return running
    const work = this.#fetch(node, SELF, new AbortController().signal)
      .then((value) => this.#keep(node, value))
      .finally(() => { this.#underWay.delete(node.installId) })
    this.#underWay.set(node.installId, work)
    return work
  }

  #keep (node: NodeView, value: RemoteListing): RemoteListing {
    this.#kept.set(node.installId, { nodeId: node.nodeId, atMs: this.#options.clock.mono(), value })
    return value
  }

  async #fetch (node: NodeView, caller: Caller, given: AbortSignal): Promise<RemoteListing> {
    const late = new AbortController()
    const stop = this.#options.clock.after(ANSWER_MS, () => {
      late.abort(unreachable(node, `did not list its capabilities within ${ANSWER_MS / 1000} s`))
    })
    try {
      const signal = AbortSignal.any([given, late.signal])
      return await this.#ask(node, caller, signal)
    } catch (error) {
      this.#kept.delete(node.installId)
      throw error
    } finally {
      stop()
    }
  }

  async #ask (node: NodeView, caller: Caller, signal: AbortSignal): Promise<RemoteListing> {
    const { clock, cluster } = this.#options
    const { text, headers } = await askNode(
      { method: 'GET', path: '/v1/capabilities', caller, signal, timeoutMs: ANSWER_MS },
      { cluster: cluster!, clock, node })
    const listing = parseJson(text)
    if (!isListing(listing)) throw unreachable(node, 'answered with something that is no listing')
    const mediaTypes = parseJson(headers[MEDIA_TYPES_HEADER] ?? '{}')
    return { listing, mediaTypes: isObject(mediaTypes) ? mediaTypes : {} }
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

function pick (
  { listing, mediaTypes }: RemoteListing, request: CallRequest
): { listed: Listed, mediaType: string | null } {
  const { capability_id: id, version, descriptor_revision: revision } = request
  const versions = new Map(listing.capabilities.filter((c) => c.id === id).map((c) => [c.version, c]))
  const listed = chooseVersion(versions, { id, version, revision }, 'The node')
  const name = `${id}@${version}`
  const mediaType = Object.hasOwn(mediaTypes, name) ? mediaTypes[name] : null
  return { listed, mediaType: typeof mediaType === 'string' ? mediaType : null }
}

function isListing (value: unknown): value is Listing {
  const all = fieldOf(value, 'capabilities')
  return typeof fieldOf(value, 'node_id') === 'string' && isObject(fieldOf(value, 'revisions')) &&
    Array.isArray(all) && all.every((c) => ['id', 'version', 'revision', 'io_mode'].every((key) =>
    typeof fieldOf(c, key) === 'string'))
}
