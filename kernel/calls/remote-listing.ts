import { raceAbort } from './drive.js'
import { fieldOf, isObject, parsed, refusalOf, unreachable } from './remote-errors.js'
import { RemoteLine } from './remote-line.js'
import { chooseVersion } from './registry.js'
import type { Clock } from '../api/clock.js'
import type { Caller } from '../api/plugin.js'
import type { Cluster, NodeView } from '../api/services.js'
import type { CallRequest } from './invoke.js'
import type { Listing } from './registry.js'

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

/** What other nodes can do, as they say themselves. */
export class RemoteListings {
  readonly #cluster: Cluster
  readonly #clock: Clock
  readonly #kept = new Map<string, Kept>()
  readonly #underWay = new Map<string, Promise<RemoteListing>>()

  constructor (cluster: Cluster, clock: Clock) {
    this.#cluster = cluster
    this.#clock = clock
  }

  /** The listing as the node answers it now. Throws `unreachable`, or the node's own error. */
  async fresh (node: NodeView, caller: Caller, signal: AbortSignal): Promise<Listing> {
    const value = await this.#fetch(node, caller, signal)
    this.#keep(node, value)
    return value.listing
  }

  /**
   * The capability that a call asks for, with the media type it emits. Throws `capability_not_found`,
   * `version_mismatch`, `revision_mismatch` as the node itself would, and `unreachable`.
   */
  async find (
    node: NodeView, request: CallRequest, signal: AbortSignal
  ): Promise<{ listed: Listed, mediaType: string | null }> {
    const kept = this.#kept.get(node.installId)
    if (kept !== undefined && kept.nodeId === node.nodeId && this.#clock.mono() - kept.atMs < KEEP_MS) {
      const { capability_id: id, version, descriptor_revision: revision } = request
      if (kept.value.listing.revisions[`${id}@${version}`] === revision) return pick(kept.value, request)
    }
    return pick(await raceAbort(this.#shared(node), signal), request)
  }

  /** What was kept of a node is old. */
  forget (installId: string): void { this.#kept.delete(installId) }

  /** One request for all calls that wait for the same listing. */
  #shared (node: NodeView): Promise<RemoteListing> {
    const running = this.#underWay.get(node.installId)
    if (running !== undefined) return running
    const work = this.#fetch(node, SELF, new AbortController().signal).then((value) => {
      this.#keep(node, value)
      return value
    }).finally(() => { this.#underWay.delete(node.installId) })
    this.#underWay.set(node.installId, work)
    return work
  }

  #keep (node: NodeView, value: RemoteListing): void {
    this.#kept.set(node.installId, { nodeId: node.nodeId, atMs: this.#clock.mono(), value })
  }

  async #fetch (node: NodeView, caller: Caller, given: AbortSignal): Promise<RemoteListing> {
    const late = new AbortController()
    const stop = this.#clock.after(ANSWER_MS, () => {
      late.abort(unreachable(node, `did not list its capabilities within ${ANSWER_MS / 1000} s`))
    })
    try {
      return await this.#ask(node, caller, AbortSignal.any([given, late.signal]))
    } catch (error) {
      this.forget(node.installId)
      throw error
    } finally {
      stop()
    }
  }

  async #ask (node: NodeView, caller: Caller, signal: AbortSignal): Promise<RemoteListing> {
    const line = await RemoteLine.open(
      { method: 'GET', path: '/v1/capabilities', caller, signal, timeoutMs: ANSWER_MS },
      { cluster: this.#cluster, clock: this.#clock, node })
    let clean = false
    try {
      const text = await line.text().catch(() => {
        if (signal.aborted) throw signal.reason
        throw unreachable(node, 'broke off while it listed its capabilities')
      })
      clean = true
      if (line.response.status !== 200) throw refusalOf(node, line.response, text)
      const listing = parsed(text)
      if (!isListing(listing)) throw unreachable(node, 'answered with something that is no listing')
      const mediaTypes = parsed(line.response.headers[MEDIA_TYPES_HEADER] ?? '{}')
      return { listing, mediaTypes: isObject(mediaTypes) ? mediaTypes : {} }
    } finally {
      line.close(clean)
    }
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
