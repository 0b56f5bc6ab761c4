import { traceOrigin } from './calls.js'
import { commandIdOf, withCommandId } from './command-id.js'
import { wantsRetry } from './retry.js'
import { rawSink, stallGuard } from './sinks.js'
import type { Invocations, ServedFrame, ServeOptions } from '../api/services.js'
import type { RouteRequest, StreamWriter } from '../api/plugin.js'
import type { StreamTarget } from './deliver.js'
import type { Frame } from './frames.js'
import type { RoutesHost } from './routes.js'
import type { FrameSink } from './sinks.js'
import type { Capability } from './registry.js'

/** Lets a plugin's own route answer with a stream in the place of one of its capabilities. */
export function createInvocations (host: RoutesHost, place: (name: string) => Capability): Invocations {
  return {
    async serve (request, options) {
      const { caller, requestId, signal, headers } = request
      const [commandId, retry] = [commandIdOf(request), wantsRetry(headers)]
      const origin = { caller, requestId, signal, commandId, retry, ...traceOrigin(request) }
      const handler: Capability['handler'] = (_input, call) => options.handler(call)
      try {
        await host.invoker.serve(place(options.as), handler, origin, servedTarget(host, request, options))
      } catch (error) {
        throw withCommandId(error, origin.commandId)
      }
    }
  }
}

function servedTarget (host: RoutesHost, request: RouteRequest, options: ServeOptions): StreamTarget {
  const { clock, limits } = host
  const { frame } = options
  const stallMs = frame === undefined ? limits.mediaStallMs : limits.streamStallMs
  return {
    raw: frame === undefined,
    throwsEarly: true,
    retries: true,
    room: frame === undefined
      ? { chunks: Number.POSITIVE_INFINITY, bytes: limits.mediaBytes, pool: host.mediaPool }
      : { chunks: limits.streamChunks, bytes: limits.streamBytes },
    open (headers) {
      const head = { contentType: options.contentType, headers: { ...headers }, stallMs }
      const writer = stallGuard(request.open(head), clock, stallMs)
      return frame === undefined ? rawSink(writer) : shapedSink(writer, frame, request.requestId)
    }
  }
}

/** Frames in the shape the plugin gives them. */
function shapedSink (
  writer: Pick<StreamWriter, 'write' | 'end' | 'cut'>, shape: NonNullable<ServeOptions['frame']>,
  requestId: string
): FrameSink {
  return {
    async write (frame) {
      const bytes = shape(servedFrame(frame, requestId))
      if (bytes !== null) await writer.write(bytes)
    },
    end: () => writer.end(),
    cut () { writer.cut() }
  }
}

function servedFrame ({ header, media }: Frame, requestId: string): ServedFrame {
  const { kind, payload, error } = header
  const body = error === null ? null : { error: { ...error, requestId }, detail: error.message }
  return { kind: kind === 'error' ? 'failed' : kind, payload, media, error: body }
}
