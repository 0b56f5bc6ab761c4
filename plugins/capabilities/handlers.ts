import {
  kernelError, Reply, type RouteRequest, type RouteSocket, type SocketRequest, type StreamHead,
  type StreamWriter
} from '../../kernel/index.js'
import { encodeFrame, FRAMES_TYPE, type Frame } from './frames/frames.js'
import { readFramed } from './framed-body.js'
import { chooseType, encodedSink, eventSink, rawSink, type FrameSink } from './framing.js'
import { originOf, wantsRetry, withId } from './origin.js'
import { clientStreams, type Capability } from './registry.js'
import { MEDIA_TYPES_HEADER } from './remote.js'
import { routes, type callSchema, type CallRequest } from './routes.js'
import { CapabilitySession } from './session.js'
import type { StreamTarget } from './deliver.js'
import type { Invoker, InvokerOptions } from './invoke.js'
import type { BytePool } from './chunk-buffer.js'
import type { Invocations, ServedFrame, ServeOptions } from './service.js'

export interface RoutesHost extends Pick<InvokerOptions, 'clock' | 'limits' | 'registry' | 'remote'> {
  invoker: Invoker
  mediaPool: BytePool
}

const EVENTS_TYPE = 'text/event-stream'
const { session: { url: SESSION_URL }, call: { url: CALL_URL }, stream: { url: STREAM_URL } } = routes

export function routeHandlers (host: RoutesHost) {
  return {
    list: (request: ListRouteRequest) => listCapabilities(host, request),
    call: async (request: CallRouteRequest) => await callUnary(host, request),
    stream: async (request: CallRouteRequest) => { await callStream(host, request) },
    cancel: ({ body, caller }: RouteRequest<typeof routes.cancel>) =>
      ({ cancelled: host.invoker.calls.cancel(body.call_id, caller) }),
    session: (ws: RouteSocket, request: SocketRequest) => new CapabilitySession(ws, request, host)
  }
}

type ListRouteRequest = RouteRequest<Pick<typeof routes.list, 'query'>>

/** Not async, so that the local listing is returned synchronously. */
function listCapabilities (host: RoutesHost, request: ListRouteRequest): unknown {
  const { registry, remote } = host
  const { query: { node_id: ref }, member } = request
  const node = ref === undefined ? null : remote.named(ref, member !== null, 'node_id')
  if (node !== null) return remote.listing(node, request.caller, request.signal)
  if (member === null) return registry.list()
  return new Reply(registry.list(), 200, { [MEDIA_TYPES_HEADER]: JSON.stringify(registry.mediaTypes()) })
}

type CallRouteRequest = RouteRequest<{ body: typeof callSchema }>

async function callUnary (host: RoutesHost, request: CallRouteRequest): Promise<Reply> {
  const origin = originOf(request)
  try {
    const { call, result } = await host.invoker.unary(requestOf(request), origin, unaryOnly)
    const body = { call_id: call.callId, ok: true, result }
    return new Reply(body, 200, { ...call.headers, 'x-svc-command-id': call.commandId })
  } catch (error) {
    throw withId(error, 'command', origin.commandId)
  }
}

async function callStream (host: RoutesHost, request: CallRouteRequest): Promise<void> {
  const origin = originOf(request)
  const { clock, limits, invoker } = host
  const { upload = null, signal } = request
  try {
    const { request: call, ...input } = upload === null
      ? { request: requestOf(request) }
      : await readFramed(upload, signal, clock, limits)
    await invoker.stream(call, { ...origin, ...input }, (capability) => {
      const { io_mode: mode } = capability.descriptor
      if (mode === 'unary') throw wrongRoute(capability, CALL_URL)
      if (upload === null && clientStreams(mode)) throw wrongRoute(capability, SESSION_URL)
      return httpTarget(host, request, capability)
    })
  } catch (error) {
    throw withId(error, 'command', origin.commandId)
  }
}

/** The size limit applies to the original request body; without a content length, the payload is measured. */
function requestOf (request: CallRouteRequest): CallRequest {
  if (request.member !== null) return request.body
  const length = Number(request.headers['content-length'] ?? Number.NaN)
  return Number.isInteger(length) ? { ...request.body, bytes: length } : request.body
}

function unaryOnly (capability: Capability): void {
  const mode = capability.descriptor.io_mode
  if (mode !== 'unary') throw wrongRoute(capability, clientStreams(mode) ? SESSION_URL : STREAM_URL)
}

function wrongRoute (capability: Capability, right: string): Error {
  const mode = capability.descriptor.io_mode
  return kernelError('invalid_request', `${capability.name} is ${mode}; call it through ${right}.`,
    { param: 'capability_id', io_mode: mode, route: right })
}

function httpTarget (host: RoutesHost, request: CallRouteRequest, capability: Capability): StreamTarget {
  const offers = [FRAMES_TYPE, EVENTS_TYPE, ...capability.mediaType === null ? [] : [capability.mediaType]]
  const type = chooseType(request.headers['accept'], offers)
  if (type === null) {
    throw kernelError('invalid_request',
      `${capability.name} streams as ${offers.join(', ')}; Accept names none of them.`,
      { param: 'accept', offered: offers })
  }
  const { clock, limits } = host
  const raw = type === capability.mediaType
  // A forwarding node applies the stall limit of its own reader, so this node allows the longer limit.
  const stallMs = raw || request.member !== null ? limits.mediaStallMs : limits.streamStallMs
  return {
    ...streamTarget(host, request, { raw, stallMs, contentType: type }, (writer) => {
      if (raw) return rawSink(writer)
      return type === EVENTS_TYPE
        ? eventSink(writer, clock, limits.keepAliveMs)
        : encodedSink(writer, encodeFrame)
    }),
    // For a forwarding node that requests a retry, the head also waits for the first chunk.
    holdsHead: request.member !== null && wantsRetry(request.headers)
  }
}

/** A response stream; `sinkOn` creates its frame sink. Raw media may wait longer for a slow reader. */
function streamTarget (
  { limits, mediaPool }: RoutesHost, request: RouteRequest,
  { raw, ...head }: Pick<StreamTarget, 'raw'> & StreamHead & { stallMs: number },
  sinkOn: (writer: Pick<StreamWriter, 'write' | 'end' | 'cut'>) => FrameSink
): StreamTarget {
  return {
    raw,
    throwsEarly: true,
    room: raw
      ? { chunks: Number.POSITIVE_INFINITY, bytes: limits.mediaBytes, pool: mediaPool }
      : { chunks: limits.streamChunks, bytes: limits.streamBytes },
    open (headers) { return sinkOn(request.open({ ...head, headers: { ...headers } })) }
  }
}

/** Lets a plugin's route answer with a stream that is treated as a capability call. */
export function createInvocations (host: RoutesHost): Invocations {
  return {
    async serve (request, options) {
      // Drop `viaMember`: requests for a plugin's route are never forwarded calls.
      const { viaMember: _, ...origin } = originOf(request)
      try {
        await host.invoker.serve(host.registry.named(options.as), (_input, call) => options.handler(call),
          origin, servedTarget(host, request, options), options.payload)
      } catch (error) {
        throw withId(error, 'command', origin.commandId)
      }
    }
  }
}

function servedTarget (
  host: RoutesHost, request: RouteRequest, { frame, contentType }: ServeOptions
): StreamTarget {
  const { limits } = host
  const raw = frame === undefined
  const stallMs = raw ? limits.mediaStallMs : limits.streamStallMs
  return {
    ...streamTarget(host, request, { raw, stallMs, contentType }, (writer) => raw
      ? rawSink(writer)
      : encodedSink(writer, (sent) => frame(servedFrame(sent, request.requestId)))),
    retries: true
  }
}

function servedFrame ({ header, media }: Frame, requestId: string): ServedFrame {
  const { kind, payload, error } = header
  const body = error === null ? null : { error: { ...error, requestId }, detail: error.message }
  return { kind: kind === 'error' ? 'failed' : kind, payload, media, error: body }
}
