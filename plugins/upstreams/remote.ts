/** Requests between nodes: only those with a server's key ask it, on behalf of the others. */
import {
  beating, errorFrom, kernelError, parseJson, readRefusal, refusalIn, serverEvents, SvcError, traceHeaders,
  whileLive, type CapabilityCall, type EngineChunk, type EngineTask, type MemberParts, type NodeView,
  type RouteRequest
} from '../../kernel/index.js'
import { fieldsOf, isObject } from '../runners/language/json.js'
import type { Invocations, ServedFrame } from '../capabilities/service.js'
import type { RouteQuery } from '../runners/service.js'
import type { routes } from './manifest.js'

const PATH = '/upstreams/tasks'
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
  const hop = query.trace?.hop('network', node, { node: node.name })
  const link = whileLive(parts, node.installId, signal)
  let ended = false
  try {
    const { status, headers, body } = await parts.cluster.request(node.installId, {
      method: 'POST', path: PATH, body: { model, payload }, caller: query.caller, signal: link.signal,
      timeoutMs: HEAD_MS,
      headers: {
        'x-svc-command-id': query.commandId, ...traceHeaders(hop),
        ...query.hops === undefined ? {} : { 'x-svc-hops': query.hops }
      }
    })
    if (status !== 200) throw errorFrom(await readRefusal(body), node, headers['retry-after']) ?? lost(node)
    for await (const event of serverEvents(body, MAX_EVENT_CHARS)) {
      if (event.kind !== 'event') continue
      ended = event.data === END
      if (ended) break
      const value = fieldsOf(parseJson(event.data))
      if (event.type === 'error') throw errorFrom(refusalIn(value), node) ?? lost(node)
      yield { payload: value }
    }
  } catch (error) {
    signal.throwIfAborted()
    throw error instanceof SvcError && !link.signal.aborted ? error : lost(node)
  } finally {
    hop?.done()
    link.end()
  }
  if (!ended) throw lost(node)
}

const lost = ({ name, nodeId }: NodeView): SvcError =>
  kernelError('unreachable', `Node ${name}, which has the key of the server, was lost.`, { node_id: nodeId })

/** Answers another node's request; `open` uses the servers of this node alone. */
export async function serveMember (
  { invocations, clock }: Pick<MemberParts, 'clock'> & { invocations: Invocations },
  request: RouteRequest<typeof routes.task>,
  open: (model: string, task: EngineTask, call: CapabilityCall) => AsyncIterable<EngineChunk>
): Promise<void> {
  const { member, body: { model, payload } } = request
  if (member === null) throw kernelError('not_found')
  await invocations.serve(request, {
    as: 'chat@1.0.0', contentType: 'text/event-stream', frame: textOf,
    handler: (call) => beating(answer(open(model, { kind: 'chat', payload }, call)), clock, BEAT_MS, { payload: {} })
  })
}

async function * answer (chunks: AsyncIterable<EngineChunk>): AsyncGenerator<{ payload: unknown }> {
  for await (const { payload } of chunks) yield { payload }
}

function textOf ({ kind, payload, error }: ServedFrame): string | null {
  if (kind === 'started') return ': started\n\n'
  if (kind === 'completed') return `data: ${END}\n\n`
  if (kind !== 'chunk') return `event: error\ndata: ${JSON.stringify(fieldsOf(error)['error'] ?? error ?? {})}\n\n`
  return isObject(payload) && Object.keys(payload).length > 0 ? `data: ${JSON.stringify(payload)}\n\n` : ': beat\n\n'
}
