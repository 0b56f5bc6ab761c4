import { kernelError, SvcError } from '../api/errors.js'
import { parseJson } from '../api/schema.js'
import { Admission } from './admission.js'
import { readCost } from './cost.js'
import { decodeFrames, FRAMES_TYPE, isTerminal } from './frames.js'
import { clientStreams } from './registry.js'
import { RETRY_HEADER } from './origin.js'
import {
  askNode, errorFrom, fieldOf, lost, nodeName, RemoteRequest, unreachable
} from './remote-request.js'
import { traceHeaders } from '../observe/tracer.js'
import type { Clock } from '../api/clock.js'
import type { CapabilityCall, CapabilityChunk } from '../api/plugin.js'
import type { Cluster, NodeView } from '../api/services.js'
import type { Cost } from './cost.js'
import type { Frame } from './frames.js'
import type { CallRequest } from './invoke.js'
import type { CapabilityLimits } from './limits.js'
import type { Capability } from './registry.js'
import type { Listed } from './remote.js'
import type { Question } from './remote-request.js'
import type { Hop } from '../observe/tracer.js'

export interface RemoteCallsOptions {
  cluster: Cluster
  clock: Clock
  limits: CapabilityLimits
  /** Told about an error that says the listing of a node is old. */
  stale: (installId: string) => void
}

/** After these the next call reads the listing of the node again. */
const STALE = [
  'unreachable', 'instance_lost', 'capability_not_found', 'version_mismatch', 'revision_mismatch'
]
/** What the other node may hold its head for, and the way there and back. */
const HEAD_FACTOR = 1.5
/** The other node's own deadline comes first. */
const HEAD_GRACE_MS = 5000
/** Headers of the answer that are made anew here. */
const OWN_HEADERS = ['x-svc-command-id', 'x-svc-request-id']

/** Calls of this node that another one serves. */
export class RemoteCalls {
  readonly #options: RemoteCallsOptions
  /** By install id. */
  readonly #slots = new Map<string, Admission>()

  constructor (options: RemoteCallsOptions) { this.#options = options }

  /**
   * Another node's capability as one that can be called here: the other node checks, admits and runs, and
   * what it sends is handed on as it is read. Throws `invalid_request` for kinds that take a stream.
   */
  capability (node: NodeView, listed: Listed, mediaType: string | null, request: CallRequest): Capability {
    const { revision, node_id: _, ...descriptor } = listed
    if (clientStreams(descriptor.io_mode)) throw takesStream(node, listed)
    const headHoldMs = this.#options.limits.headHoldMs * HEAD_FACTOR
    return {
      owner: 'kernel',
      name: `${listed.id}@${listed.version}`,
      descriptor,
      revision,
      mediaType,
      cost: costThere(node, listed),
      handler: descriptor.io_mode === 'unary'
        ? async (input, call) => await this.#watched(node, () => this.#unary(node, request, input, call))
        : (input, call) => this.#stream(node, request, input, call),
      input: () => null,
      output: null,
      inputChunk: null,
      outputChunk: null,
      remote: { slots: this.#slotsOf(node), headHoldMs }
    }
  }

  /** The slots for calls to that node; no call waits for one. */
  #slotsOf (node: NodeView): Admission {
    const known = this.#slots.get(node.installId)
    if (known !== undefined) return known
    const { clock, limits: { remoteCalls } } = this.#options
    const slots = new Admission(`The way to ${nodeName(node)}`, clock, { concurrency: remoteCalls, queue: 0 })
    this.#slots.set(node.installId, slots)
    return slots
  }

  async #unary (
    node: NodeView, request: CallRequest, input: unknown, call: CapabilityCall
  ): Promise<unknown> {
    const { cluster, clock } = this.#options
    const hop = call.trace?.hop('network', node, { node: node.name })
    try {
      const question = this.#question(node, 'application/json', request, input, call, hop)
      const { text, headers } = await askNode(question, { cluster, clock, node })
      passHeaders(headers, call)
      const answer = parseJson(text)
      if (fieldOf(answer, 'ok') !== true) throw unreachable(node, 'answered with something that is no result')
      return fieldOf(answer, 'result') ?? null
    } finally {
      hop?.done()
    }
  }

  async * #stream (
    node: NodeView, request: CallRequest, input: unknown, call: CapabilityCall
  ): AsyncGenerator<CapabilityChunk<unknown>> {
    const { cluster, clock } = this.#options
    const hop = call.trace?.hop('network', node, { node: node.name })
    const question = this.#question(node, FRAMES_TYPE, request, input, call, hop)
    let open: RemoteRequest | undefined
    let whole = false
    try {
      open = await this.#watched(node, () => RemoteRequest.openOk(question, { cluster, clock, node }))
      passHeaders(open.response.headers, call)
      let any = false
      const frames = decodeFrames(open.bytes())
      for (;;) {
        const frame = await this.#watched(node, () => nextFrame(frames, node, call, any, hop))
        if (frame.header.kind === 'completed') break
        if (frame.header.kind !== 'chunk') continue
        any = true
        yield chunkOf(frame)
      }
      await frames.next()
      whole = await readOut(open)
    } finally {
      hop?.done()
      open?.close(whole)
    }
  }

  #question (
    node: NodeView, accept: string, request: CallRequest, input: unknown, call: CapabilityCall,
    hop: Hop | undefined
  ): Question {
    const pinned = (request.target_node ?? null) !== null
    const seconds = request.timeout_seconds ?? this.#options.limits.timeoutSeconds
    return {
      method: 'POST',
      path: `/v1/capabilities/${accept === FRAMES_TYPE ? 'stream' : 'call'}`,
      headers: {
        accept, 'x-svc-command-id': call.commandId, ...(call.retry ? { [RETRY_HEADER]: '1' } : {}),
        ...traceHeaders(hop)
      },
      // The command id is no other call's; the caller's call_id may be in use by one of another entry node.
      body: {
        call_id: call.commandId,
        capability_id: request.capability_id,
        version: request.version,
        descriptor_revision: request.descriptor_revision,
        timeout_seconds: seconds,
        payload: input,
        ...pinned ? { target_node: node.installId } : {}
      },
      caller: call.caller,
      signal: call.signal,
      timeoutMs: seconds * 1000 + HEAD_GRACE_MS
    }
  }

  /** Does the work, and forgets the node's listing when the work says that it is old. */
  async #watched<T> (node: NodeView, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (error instanceof SvcError && STALE.includes(error.reason)) this.#options.stale(node.installId)
      throw error
    }
  }
}

/** The next frame that is no failure. Throws the other node's error, or that it has gone. */
async function nextFrame (
  frames: AsyncIterator<Frame>, node: NodeView, call: CapabilityCall, any: boolean, hop: Hop | undefined
): Promise<Frame> {
  const gone = any ? lost : unreachable
  const step = await frames.next().catch(() => {
    // The end of the call itself is nothing new.
    throw call.signal.aborted
      ? call.signal.reason
      : gone(node, any ? 'was lost in the middle of the stream' : 'broke off')
  })
  if (step.done === true) throw gone(node, 'sent no end of the stream')
  const { kind, error, trace } = step.value.header
  if (isTerminal(kind)) hop?.done(trace)
  if (kind === 'cancelled') throw kernelError('cancelled', `The call was cancelled at ${nodeName(node)}.`)
  if (kind === 'failed') throw errorFrom(error) ?? gone(node, 'failed without a reason')
  return step.value
}

/** Reads what follows the terminal frame, which is only the end; false when it is anything else. */
async function readOut (request: RemoteRequest): Promise<boolean> {
  try {
    for await (const _ of request.bytes()) return false
    return true
  } catch {
    return false
  }
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
      bytes,
      mediaType: media.media_type,
      codec: media.codec,
      sampleRate: media.sample_rate,
      channels: media.channels,
      timestampSeconds: media.timestamp_seconds,
      durationSeconds: media.duration_seconds
    }
  }
}

/** What its calls cost. Throws `unreachable` for what cannot be read: it would be a call for nothing. */
function costThere (node: NodeView, { annotations, id }: Listed): Cost | null {
  const text: unknown = (annotations as Listed['annotations'] | undefined)?.['cost']
  if (text === undefined) return null
  const cost = typeof text === 'string' ? readCost(text) : null
  if (cost === null) throw unreachable(node, `says of ${id} what it costs in words that are not known here`)
  return cost
}

function takesStream (node: NodeView, { id, version, io_mode: mode }: Listed): SvcError {
  const at = node.apiUrl === null ? '' : ` at ${node.apiUrl}`
  return kernelError('invalid_request',
    `${id}@${version} is ${mode}: a stream from the client is not passed on to another node. ` +
    `Open the WebSocket /v1/capabilities/session of ${nodeName(node)}${at} itself.`,
    { param: 'target_node', io_mode: mode, node_id: node.nodeId, route: '/v1/capabilities/session' })
}
