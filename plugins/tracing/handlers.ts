import { Reply, type Caller, type SvcError } from '../../kernel/index.js'
import {
  askPeers, mergeLists, mergeSpans, type FailedPeer, type ListedTrace, type PeerReaders, type PeersParts
} from './peers.js'
import { statsOf } from './stats.js'
import { readSpans, TRACE_ID, type ShownSpan } from './trace-file.js'
import type { TraceStore } from './store.js'

export interface HandlerParts extends PeersParts, PeerReaders {
  store: TraceStore
  nodeId: string
  error: (reason: 'trace_not_found' | 'trace_damaged', message: string) => SvcError
}

interface ById { caller: Caller, signal: AbortSignal, params: { id: string } }
interface Listing { caller: Caller, signal: AbortSignal, query: { limit: number } }

export function traceHandlers (parts: HandlerParts) {
  const { store, nodeId } = parts
  const own = () => ({ nodeId, value: store.list() })
  return {
    list: ({ query }: Listing) => ({ traces: mergeLists([own()]).slice(0, query.limit) }),
    async get ({ params }: ById) {
      const { taskId, spans } = await spansHere(parts, params.id)
      return { taskId, traces: spans }
    },
    async stats ({ params }: ById) {
      const { taskId, spans } = await spansHere(parts, params.id)
      return statsOf(taskId, spans)
    },
    raw: async ({ params }: ById) => attachment(await fileHere(parts, params.id)),
    async clusterList (request: Listing): Promise<{ traces: ListedTrace[], failed: FailedPeer[] }> {
      const { limit } = request.query
      const { answers, failed } = await askPeers(parts, `/v1/traces?limit=${limit}`, request,
        (text) => parts.readList(JSON.parse(text)))
      return { traces: mergeLists([own(), ...answers]).slice(0, limit), failed }
    },
    clusterGet: async (request: ById) => await gather(parts, request),
    async clusterStats (request: ById) {
      const { taskId, traces, sourceNodes, failed } = await gather(parts, request)
      return { ...statsOf(taskId, traces), sourceNodes, failed }
    },
    clusterRaw: async (request: ById) => attachment(await fileAnywhere(parts, request)),
    async delete ({ body }: { body: { taskIds: string[] } }) {
      const outcome = { deleted: [] as string[], notFound: [] as string[] }
      for (const id of new Set(body.taskIds)) {
        outcome[await store.remove(id) ? 'deleted' : 'notFound'].push(id)
      }
      return outcome
    }
  }
}

interface TraceFile { taskId: string, text: string }

const attachment = ({ taskId, text }: TraceFile): Reply =>
  new Reply(text, 200, { 'content-disposition': `attachment; filename="${taskId}.json"` })

function notFound ({ error }: HandlerParts, id: string, where: string, failed: FailedPeer[] = []): SvcError {
  const silent = failed.length === 0
    ? ''
    : ` ${failed.map(({ name, reason }) => `${name} could not be queried (${reason})`).join('; ')}.`
  return error('trace_not_found', `There is no trace of task or command ${id} ${where}.${silent}`)
}

async function fileHere (parts: HandlerParts, id: string): Promise<TraceFile> {
  const taskId = parts.store.find(id)
  const text = taskId === undefined ? undefined : await parts.store.read(taskId)
  if (taskId === undefined || text === undefined) throw notFound(parts, id, 'on this node')
  return { taskId, text }
}

async function spansHere (parts: HandlerParts, id: string): Promise<{ taskId: string, spans: ShownSpan[] }> {
  const { taskId, text } = await fileHere(parts, id)
  try {
    return { taskId, spans: readSpans(text) }
  } catch {
    throw parts.error('trace_damaged', `The trace file of ${taskId} on this node is damaged.`)
  }
}

/** The spans of a trace from every node that stores it. */
async function gather (parts: HandlerParts, request: ById) {
  const { params: { id } } = request
  const { answers, failed } = await askPeers(parts, `/v1/traces/${id}`, request,
    (text) => parts.readTrace(JSON.parse(text)))
  const { store, nodeId } = parts
  const own = store.find(id) === undefined ? [] : [{ nodeId, value: await spansHere(parts, id) }]
  const all = [...own, ...answers]
  const [first] = all
  if (first === undefined) throw notFound(parts, id, 'on any node', failed)
  return {
    taskId: first.value.taskId,
    traces: mergeSpans(all.map(({ nodeId, value: { spans } }) => ({ nodeId, value: spans }))),
    sourceNodes: all.map(({ nodeId }) => nodeId), failed
  }
}

/** This node's file for a trace, else the largest file that another node has. */
async function fileAnywhere (parts: HandlerParts, request: ById): Promise<TraceFile> {
  const { params: { id } } = request
  if (parts.store.find(id) !== undefined) return await fileHere(parts, id)
  const { answers, failed } = await askPeers(parts, `/v1/traces/${id}/raw`, request, readFile)
  const [largest] = answers.map(({ value }) => value).sort((a, b) => b.text.length - a.text.length)
  if (largest === undefined) throw notFound(parts, id, 'on any node', failed)
  return largest
}

/** Parses a file in Chrome's trace format; null if its content has another form. */
function readFile (text: string): TraceFile | null {
  const { otherData, traceEvents } =
    JSON.parse(text) as { otherData?: { taskId?: unknown }, traceEvents?: unknown }
  const taskId = otherData?.taskId
  return typeof taskId === 'string' && TRACE_ID.test(taskId) && Array.isArray(traceEvents)
    ? { taskId, text }
    : null
}
