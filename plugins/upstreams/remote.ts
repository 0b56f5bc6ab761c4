/** Requests between nodes: only those with a server's key ask it, on behalf of the others. */
import {
  beating, errorFrom, kernelError, parseJson, readRefusal, refusalIn, serverEvents, SvcError, traceHeaders,
  whileLive, type CapabilityCall, type Clock, type EngineChunk, type EngineTask, type MemberParts,
  type NodeView, type RouteRequest
} from '../../kernel/index.js'
import { fieldsOf } from '../runners/language/json.js'
import type { Invocations, ServedFrame } from '../capabilities/service.js'
import type { RouteQuery } from '../runners/service.js'
import type { routes } from './manifest.js'

/** Limit in ms on the wait until the other node begins its response. */
const HEAD_MS = 10_000
const BEAT_MS = 10_000
const MAX_EVENT_CHARS = 8 * 2 ** 20
const END = '[DONE]'

/** The answer of a node. Throws that node's error, and `unreachable` if it is lost. */
export async function * openAt (
  parts: MemberParts, node: NodeView, model: string, { payload }: EngineTask, query: RouteQuery,
  signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  const { commandId, caller, hops = '', trace } = query
  const hop = trace?.hop('network', node, { node: node.name })
  const link = whileLive(parts, node.installId, signal)
  const lost = (): SvcError => kernelError('unreachable',
    `Node ${node.name}, which asks the server for ${model}, was lost.`, { node_id: node.nodeId })
  try {
    const { status, headers, body } = await parts.cluster.request(node.installId, {
      method: 'POST', path: '/upstreams/tasks', body: { model, payload }, caller, signal: link.signal,
      headers: { 'x-svc-command-id': commandId, 'x-svc-hops': hops, ...traceHeaders(hop) }, timeoutMs: HEAD_MS
    })
    if (status !== 200) throw errorFrom(await readRefusal(body), node, headers['retry-after']) ?? lost()
    for await (const event of serverEvents(body, MAX_EVENT_CHARS)) {
      if (event.kind !== 'event') continue
      if (event.data === END) return
      const value = fieldsOf(parseJson(event.data))
      if (event.type === 'error') throw errorFrom(refusalIn(value), node) ?? lost()
      yield { payload: value }
    }
    throw lost()
  } catch (error) {
    signal.throwIfAborted()
    throw error instanceof SvcError && !link.signal.aborted ? error : lost()
  } finally {
    hop?.done()
    link.end()
  }
}

/** Answers another node's request with `open`, which asks a server of this node. */
export async function serveMember (
  invocations: Invocations, clock: Clock, request: RouteRequest<typeof routes.task>,
  open: (call: CapabilityCall) => AsyncIterable<EngineChunk>
): Promise<void> {
  if (request.member === null) throw kernelError('not_found')
  const chunks = async function * (call: CapabilityCall): AsyncGenerator<{ payload: object }> {
    for await (const { payload } of open(call)) yield { payload }
  }
  await invocations.serve(request, {
    as: 'chat@1.0.0', contentType: 'text/event-stream', frame: textOf,
    handler: (call) => beating(chunks(call), clock, BEAT_MS, { payload: {} })
  })
}

function textOf ({ kind, payload, error }: ServedFrame): string | null {
  if (kind === 'completed') return `data: ${END}\n\n`
  if (error !== null) return `event: error\ndata: ${JSON.stringify(fieldsOf(error)['error'] ?? {})}\n\n`
  return Object.hasOwn(fieldsOf(payload), 'choices') ? `data: ${JSON.stringify(payload)}\n\n` : ': beat\n\n'
}
