import { Reply } from '../../kernel/index.js'
import type { Caller, RouteRequest, SvcError } from '../../kernel/index.js'
import { readSpans } from './chrome.js'
import { mergeLists, mergeSpans, readList, readTrace } from './merge.js'
import { askPeers } from './peers.js'
import { TRACE_ID } from './record.js'
import { statsOf } from './stats.js'
import type { ShownSpan } from './chrome.js'
import type { ListedTrace } from './merge.js'
import type { FailedPeer, PeersParts } from './peers.js'
import type { TraceStats } from './stats.js'
import type { TraceEntry, TraceStore } from './store.js'

export interface HandlerParts extends PeersParts {
  store: TraceStore
  nodeId: string
  error: (reason: 'trace_not_found' | 'trace_damaged', message: string) => SvcError
}

type ById = Pick<RouteRequest<{ params: { type: 'object', properties: { id: { type: 'string' } } } }>,
  'caller' | 'signal'> & { params: { id: string } }
type Listing = { caller: Caller, signal: AbortSignal, query: { limit: number } }

/** The spans of a trace and the nodes they are from. */
interface Gathered { taskId: string, traces: ShownSpan[], sourceNodes: string[], failed: FailedPeer[] }

/** Handlers of the routes that show and remove traces. */
export interface TraceHandlers {
  list (request: Listing): { traces: ListedTrace[] }
  get (request: ById): Promise<{ taskId: string, traces: ShownSpan[] }>
  stats (request: ById): Promise<TraceStats>
  raw (request: ById): Promise<Reply>
  clusterList (request: Listing): Promise<{ traces: ListedTrace[], failed: FailedPeer[] }>
  clusterGet (request: ById): Promise<Gathered>
  clusterStats (request: ById): Promise<TraceStats & Pick<Gathered, 'sourceNodes' | 'failed'>>
  clusterRaw (request: ById): Promise<Reply>
  delete (request: { body: { taskIds: string[] } }): Promise<{ deleted: string[], notFound: string[] }>
}

export function traceHandlers (parts: HandlerParts): TraceHandlers {
  const { store, nodeId } = parts
  const own = (): TraceEntry[] => store.list()
  return {
    list: ({ query }) => ({ traces: mergeLists([{ nodeId, value: own() }]).slice(0, query.limit) }),
    async get ({ params }) {
      const { taskId, spans } = await here(parts, params.id)
      return { taskId, traces: spans }
    },
    async stats ({ params }) {
      const { taskId, spans } = await here(parts, params.id)
      return statsOf(taskId, spans)
    },
    async raw ({ params }) {
      const { taskId, text } = await fileOf(parts, params.id)
      return file(taskId, text)
    },
    async clusterList (request) {
      const { limit } = request.query
      const { answers, failed } = await askPeers(parts, `/v1/traces?limit=${limit}`, request,
        (text) => readList(JSON.parse(text)))
      return { traces: mergeLists([{ nodeId, value: own() }, ...answers]).slice(0, limit), failed }
    },
    clusterGet: async (request) => await gather(parts, request),
    async clusterStats (request) {
      const { taskId, traces, sourceNodes, failed } = await gather(parts, request)
      return { ...statsOf(taskId, traces), sourceNodes, failed }
    },
    clusterRaw: async (request) => await rawAnywhere(parts, request),
    async delete ({ body }) {
      const outcome = { deleted: [] as string[], notFound: [] as string[] }
      for (const id of new Set(body.taskIds)) {
        const gone = await store.remove(id)
        outcome[gone ? 'deleted' : 'notFound'].push(id)
      }
      return outcome
    }
  }
}

const file = (taskId: string, text: string): Reply =>
  new Reply(text, 200, { 'content-disposition': `attachment; filename="${taskId}.json"` })

function notFound ({ error }: HandlerParts, id: string, where: string, failed: FailedPeer[] = []): SvcError {
  const silent = failed.length === 0
    ? ''
    : ` ${failed.map(({ name, reason }) => `${name} could not be asked (${reason})`).join('; ')}.`
  return error('trace_not_found', `There is no trace of the task or command ${id} ${where}.${silent}`)
}

async function fileOf (parts: HandlerParts, id: string): Promise<{ taskId: string, text: string }> {
  const taskId = parts.store.find(id)
  const text = taskId === undefined ? undefined : await parts.store.read(taskId)
  if (taskId === undefined || text === undefined) throw notFound(parts, id, 'on this node')
  return { taskId, text }
}

async function here (parts: HandlerParts, id: string): Promise<{ taskId: string, spans: ShownSpan[] }> {
  const { taskId, text } = await fileOf(parts, id)
  try {
    return { taskId, spans: readSpans(text) }
  } catch {
    throw parts.error('trace_damaged', `The file of the trace ${taskId} on this node is damaged.`)
  }
}

/** The spans of a trace from every node that keeps it. */
async function gather (parts: HandlerParts, request: ById): Promise<Gathered> {
  const { params: { id } } = request
  const { answers, failed } = await askPeers(parts, `/v1/traces/${id}`, request,
    (text) => readTrace(JSON.parse(text)))
  const { store, nodeId } = parts
  const own = store.find(id) === undefined ? [] : [{ nodeId, value: await here(parts, id) }]
  const all = [...own, ...answers]
  const [first] = all
  if (first === undefined) throw notFound(parts, id, 'on any node', failed)
  return {
    taskId: first.value.taskId,
    traces: mergeSpans(all.map(({ nodeId, value: { spans } }) => ({ nodeId, value: spans }))),
    sourceNodes: all.map(({ nodeId }) => nodeId),
    failed
  }
}

/** The file of a trace: this node's, else the largest of those that others have. */
async function rawAnywhere (parts: HandlerParts, request: ById): Promise<Reply> {
  const { params: { id } } = request
  if (parts.store.find(id) !== undefined) {
    const { taskId, text } = await fileOf(parts, id)
    return file(taskId, text)
  }
  const { answers, failed } = await askPeers(parts, `/v1/traces/${id}/raw`, request, readRaw)
  const [largest] = answers.sort((a, b) => b.value.text.length - a.value.text.length)
  if (largest === undefined) throw notFound(parts, id, 'on any node', failed)
  return file(largest.value.taskId, largest.value.text)
}

/** A file in Chrome's trace form; null when the text is none. */
function readRaw (text: string): { taskId: string, text: string } | null {
  const { otherData, traceEvents } =
    JSON.parse(text) as { otherData?: { taskId?: unknown }, traceEvents?: unknown }
  const taskId = otherData?.taskId
  return typeof taskId === 'string' && TRACE_ID.test(taskId) && Array.isArray(traceEvents)
    ? { taskId, text }
    : null
}
