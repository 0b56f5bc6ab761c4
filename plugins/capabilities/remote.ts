import {
  deadline, errorFrom, isObject, kernelError, MemberFault, noSuchNode, parseJson, readRefusal, refusalIn,
  SvcError, textOf, traceHeaders, whileLive, type Caller, type CapabilityCall, type CapabilityChunk,
  type Clock, type Cluster, type Hop, type MemberRequest, type MemberResponse, type NodeInfo, type NodeView
} from '../../kernel/index.js'
import { Admission } from './admission.js'
import { readCost } from './cost.js'
import { decodeFrames, framedBody, FRAMES_TYPE, isTerminal, type Frame } from './frames/frames.js'
import { RETRY_HEADER, type CallOrigin } from './origin.js'
import { chooseVersion, clientStreams, serverStreams, type Capability, type Listing } from './registry.js'
import type { CapabilityLimits } from './limits.js'
import type { CallRequest } from './routes.js'

/** Header of a listing for another node, with the media types of the listed capabilities. */
export const MEDIA_TYPES_HEADER = 'x-svc-media-types'

export type Listed = Listing['capabilities'][number]

interface RemoteListing { readonly listing: Listing, readonly mediaTypes: Readonly<Record<string, unknown>> }

const ANSWER_MS = 5000
const ANSWER_BYTES = 64 * 1024 * 1024
/** Factor for the other node's head delay, to allow for the round trip. */
const HEAD_FACTOR = 1.5
/** Milliseconds added to the call's timeout, so that the other node's timeout ends first. */
const HEAD_GRACE_MS = 5000
/** Response headers that this node sets itself. */
const OWN_HEADERS = ['x-svc-command-id', 'x-svc-request-id']
/** The caller for lookups that this node makes for itself. */
const SELF: Caller = { id: 'node', mode: 'direct', authorities: new Set(['read']) }

export interface RemoteOptions {
  clock: Clock
  node: Pick<NodeInfo, 'nodeId' | 'installId'>
  limits: CapabilityLimits
  cluster: Cluster | undefined
  /** Install id of a node with a capability that this node lacks. */
  elsewhere (capabilityId: string): string | null
}

/** Calls to capabilities on other nodes. */
export class Remote {
  readonly #options: RemoteOptions
  /** Slots for calls to each node, by install id; calls do not queue for them. */
  readonly #slots = new Map<string, Admission>()

  constructor (options: RemoteOptions) { this.#options = options }

  /**
   * The node that serves a call: the requested one, or one that advertises the capability if no local plugin
   * has it; null means this node. Forwarded calls stay here, which prevents loops. Throws `node_not_found`
   * and `unreachable`.
   */
  target ({ target_node: ref, capability_id: id }: CallRequest, origin: CallOrigin): NodeView | null {
    const { cluster, elsewhere } = this.#options
    const viaMember = origin.viaMember === true
    if (ref !== undefined && ref !== null) return this.named(ref, viaMember, 'target_node')
    if (viaMember || cluster === undefined) return null
    const installId = elsewhere(id)
    const node = installId === null ? undefined : cluster.resolve(installId)
    return node === undefined || node.self || !node.live ? null : node
  }

  /** The live node with this name; null for this node. Throws `node_not_found` and `unreachable`. */
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

  /** GET /v1/capabilities of a node. Throws `unreachable`, or the node's error. */
  async listing (node: NodeView, caller: Caller, signal: AbortSignal): Promise<Listing> {
    return (await this.#fetch(node, caller, signal)).listing
  }

  /**
   * A local proxy for a capability of another node, which checks, admits and runs the calls; its output is
   * forwarded as it arrives. Throws `capability_not_found`, `version_mismatch`, `revision_mismatch`,
   * `invalid_request`, `unreachable`.
   */
  async capability (node: NodeView, request: CallRequest, signal: AbortSignal): Promise<Capability> {
    // If the client disconnects, the error is `cancelled`, whatever the signal's reason is.
    const { listing, mediaTypes } = await this.#fetch(node, SELF, signal).catch((error: unknown) => {
      throw error instanceof SvcError ? error : kernelError('cancelled', 'The client disconnected.')
    })
    const { capability_id: id, version, descriptor_revision: wanted } = request
    const versions = new Map(listing.capabilities.filter((c) => c.id === id).map((c) => [c.version, c]))
    const listed = chooseVersion(versions, { id, version, revision: wanted }, 'The node')
    const { revision, node_id: _, ...descriptor } = listed
    const { io_mode: mode } = descriptor
    const name = `${id}@${version}`
    const mediaType = Object.hasOwn(mediaTypes, name) ? mediaTypes[name] : null
    return {
      owner: 'kernel',
      name,
      descriptor,
      revision,
      mediaType: typeof mediaType === 'string' ? mediaType : null,
      cost: costThere(node, listed),
      handler: (input, call) => {
        if (mode === 'unary') return this.#unary(node, request, input, call)
        const answer = this.#stream(node, request, input, call, clientStreams(mode))
        return serverStreams(mode) ? answer : resultOf(answer)
      },
      input: () => null,
      output: null,
      inputChunk: clientStreams(mode) ? () => null : null,
      outputChunk: null,
      remote: { slots: this.#slotsOf(node), headHoldMs: this.#options.limits.headHoldMs * HEAD_FACTOR }
    }
  }

  #slotsOf (node: NodeView): Admission {
    const { clock, limits: { remoteCalls: concurrency } } = this.#options
    const slots = this.#slots.get(node.installId) ??
      new Admission(`The connection to ${nodeName(node)}`, clock, { concurrency, queue: 0 })
    this.#slots.set(node.installId, slots)
    return slots
  }

  async #fetch (node: NodeView, caller: Caller, given: AbortSignal): Promise<RemoteListing> {
    const { signal, stop } = deadline(this.#options.clock, ANSWER_MS,
      () => unreachable(node, `did not list its capabilities within ${ANSWER_MS / 1000} s`), given)
    const question = { method: 'GET', path: '/v1/capabilities', caller, timeoutMs: ANSWER_MS, signal }
    return await this.#asked(node, question, async ({ headers, body }) => {
      const listing = parseJson(await textOf(body, ANSWER_BYTES))
      if (!isListing(listing)) throw unreachable(node, 'returned an invalid listing')
      const mediaTypes = parseJson(headers[MEDIA_TYPES_HEADER] ?? '{}')
      return { listing, mediaTypes: isObject(mediaTypes) ? mediaTypes : {} }
    }).finally(stop)
  }

  async #unary (
    node: NodeView, request: CallRequest, input: unknown, call: CapabilityCall
  ): Promise<unknown> {
    const hop = call.trace?.hop('network', node, { node: node.name })
    const question = this.#question(node, 'application/json', request, input, call, hop)
    return await this.#asked(node, question, async ({ headers, body }) => {
      passHeaders(headers, call)
      const answer = parseJson(await textOf(body, ANSWER_BYTES))
      if (isObject(answer) && answer['ok'] === true) return answer['result'] ?? null
      throw unreachable(node, 'returned an invalid result')
    }).finally(() => { hop?.done() })
  }

  /**
   * Sends a request and processes its response with `read`. Throws the other node's error, or that of
   * `failure` below.
   */
  async #asked<T> (
    node: NodeView, question: Question, read: (answer: MemberResponse) => Promise<T>
  ): Promise<T> {
    const link = whileLive(this.#parts, node.installId, question.signal)
    try {
      return await read(await this.#open(node, { ...question, signal: link.signal }))
    } catch (error) {
      const how = 'disconnected before its response was complete'
      throw failure(node, error, question.signal, link.signal, how)
    } finally {
      link.end()
    }
  }

  /** Yields the chunks and returns the result. `sends`: the client's chunks go with the request. */
  async * #stream (
    node: NodeView, request: CallRequest, input: unknown, call: CapabilityCall, sends: boolean
  ): AsyncGenerator<CapabilityChunk<unknown>, unknown> {
    const hop = call.trace?.hop('network', node, { node: node.name })
    const { body: fields, ...rest } = this.#question(node, FRAMES_TYPE, request, input, call, hop)
    const question = sends
      ? { ...rest, upload: { type: FRAMES_TYPE, bytes: framedBody(fields as object, call.chunks) } }
      : { ...rest, body: fields }
    let result: unknown
    const link = whileLive(this.#parts, node.installId, call.signal)
    let any = false
    try {
      const { headers, body } = await this.#open(node, { ...question, signal: link.signal })
      passHeaders(headers, call)
      for await (const frame of decodeFrames(body)) {
        const { kind, error, trace } = frame.header
        if (isTerminal(kind)) hop?.done(trace)
        if (kind === 'cancelled') {
          throw kernelError('cancelled', `The call was cancelled on ${nodeName(node)}.`)
        }
        if (kind === 'failed') throw errorFrom(refusalIn(error), node) ?? new Error('failed without a reason')
        if (kind === 'completed') result = frame.header.payload
        if (kind !== 'chunk') continue
        any = true
        yield chunkOf(frame)
      }
      return result
    } catch (error) {
      throw failure(node, error, call.signal, link.signal, any ? null : 'disconnected')
    } finally {
      hop?.done()
      link.end()
    }
  }

  #question (
    node: NodeView, accept: string, request: CallRequest, input: unknown, call: CapabilityCall,
    hop: Hop | undefined
  ): Question {
    const { capability_id, version, descriptor_revision, target_node: target } = request
    const seconds = request.timeout_seconds ?? this.#options.limits.timeoutSeconds
    return {
      method: 'POST',
      path: `/v1/capabilities/${accept === FRAMES_TYPE ? 'stream' : 'call'}`,
      headers: {
        accept, 'x-svc-command-id': call.commandId, ...(call.retry ? { [RETRY_HEADER]: '1' } : {}),
        ...traceHeaders(hop)
      },
      // Use the command id as call_id, because the caller's own call_id may be in use through another node.
      body: {
        call_id: call.commandId, capability_id, version, descriptor_revision, timeout_seconds: seconds,
        payload: input, ...(target ?? null) === null ? {} : { target_node: node.installId }
      },
      caller: call.caller,
      signal: call.signal,
      timeoutMs: seconds * 1000 + HEAD_GRACE_MS
    }
  }

  get #parts (): { cluster: Cluster, clock: Clock } {
    const { cluster, clock } = this.#options
    return { cluster: cluster!, clock }
  }

  /** Opens a response with status 200; throws the error in any other response. */
  async #open (node: NodeView, question: Question): Promise<MemberResponse> {
    question.signal.throwIfAborted()
    const answer = await this.#parts.cluster.request(node.installId, question).catch((error: unknown) => {
      throw error instanceof SvcError ? error : unreachable(node, 'did not answer')
    })
    const { status, headers, body } = answer
    if (status === 200) return answer
    throw errorFrom(await readRefusal(body), node, headers['retry-after']) ??
      unreachable(node, `answered with status ${status} and no reason`)
  }
}

type Question = MemberRequest & { readonly signal: AbortSignal }

/**
 * The error to throw: the signal's reason, the other node's error, or, if the node was lost, `instance_lost`
 * after a chunk (`how` is null) and `unreachable` before it.
 */
function failure (
  node: NodeView, error: unknown, signal: AbortSignal, link: AbortSignal, how: string | null
): unknown {
  if (signal.aborted) return signal.reason
  if (error instanceof MemberFault) {
    return kernelError('invalid_result', `${sentence(node)} ${error.message}.`)
  }
  if (error instanceof SvcError && !link.aborted) return error
  if (how !== null) return unreachable(node, link.aborted ? 'was lost before it answered' : how)
  return kernelError('instance_lost', `${sentence(node)} was lost in the middle of the stream.`,
    { node_id: node.nodeId })
}

function passHeaders (headers: Readonly<Record<string, string>>, call: CapabilityCall): void {
  for (const [name, value] of Object.entries(headers)) {
    if (name.startsWith('x-svc-') && !OWN_HEADERS.includes(name)) call.setHeader(name, value)
  }
}

function chunkOf ({ header: { payload, media }, media: bytes }: Frame): CapabilityChunk<unknown> {
  if (media === null || bytes === null) return { payload }
  return {
    payload,
    media: {
      bytes, mediaType: media.media_type, codec: media.codec, sampleRate: media.sample_rate,
      channels: media.channels, timestampSeconds: media.timestamp_seconds,
      durationSeconds: media.duration_seconds
    }
  }
}

/** The cost of a remote capability. Throws `unreachable` if it is invalid, so that the call is not free. */
function costThere (node: NodeView, { annotations, id }: Listed): Capability['cost'] {
  const text: unknown = (annotations as Listed['annotations'] | undefined)?.['cost']
  if (text === undefined) return null
  const cost = typeof text === 'string' ? readCost(text) : null
  if (cost === null) throw unreachable(node, `declares an unreadable cost for ${id}`)
  return cost
}

async function resultOf (answer: AsyncGenerator<unknown, unknown>): Promise<unknown> {
  for (;;) {
    const { done, value } = await answer.next()
    if (done === true) return value
  }
}

function isListing (value: unknown): value is Listing {
  if (!isObject(value) || !isObject(value['revisions']) || typeof value['node_id'] !== 'string') return false
  const all = value['capabilities']
  return Array.isArray(all) && all.every((c) => isObject(c) &&
    ['id', 'version', 'revision', 'io_mode'].every((key) => typeof c[key] === 'string'))
}

/** The error if the other node did not answer, or disconnected before the first chunk. */
function unreachable (node: NodeView, what: string): SvcError {
  return kernelError('unreachable', `${sentence(node)} ${what}.`, { node_id: node.nodeId })
}

const nodeName = (node: NodeView): string => `node ${node.name} (${node.nodeId})`
const sentence = (node: NodeView): string => nodeName(node).replace('node', 'Node')
