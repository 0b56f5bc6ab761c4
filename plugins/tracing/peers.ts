import { askMembers, MemberFault, openObject } from '../../kernel/index.js'
import { span, stored } from './routes.js'
import type { Caller, Clock, Cluster, Context, FromSchema } from '../../kernel/index.js'
import type { entry, failedPeer } from './routes.js'
import type { TraceEntry } from './store.js'
import type { ShownSpan } from './trace-file.js'

export type FailedPeer = FromSchema<typeof failedPeer>

export interface NodeTraces<T> { nodeId: string, value: T }

/** What the other nodes answered. A node that does not have the trace appears in neither list. */
export interface PeerAnswers<T> { answers: NodeTraces<T>[], failed: FailedPeer[] }

export interface PeersParts { cluster: Pick<Cluster, 'nodes' | 'request'>, clock: Clock }

export type ListedTrace = FromSchema<typeof entry>

/** Deadline in ms for a node's complete answer. */
const PEER_MS = 3000
/** Size limit in bytes for a node's answer. */
const BODY_BYTES = 32 * 1024 * 1024

/** Requests a path from all other live nodes. Never throws; `failed` names nodes with invalid answers too. */
export async function askPeers<T> (
  parts: PeersParts, path: string, { caller, signal }: { caller: Caller, signal: AbortSignal },
  read: (text: string) => T | null
): Promise<PeerAnswers<T>> {
  const peers = parts.cluster.nodes().filter(({ self, live }) => live && !self)
  const result: PeerAnswers<T> = { answers: [], failed: [] }
  const request = { path, caller, signal, ms: PEER_MS, bytes: BODY_BYTES, read }
  const responses = await Promise.all(askMembers(parts, peers, request))
  for (const { node: { nodeId, name }, value, error } of responses) {
    if (error === null) result.answers.push({ nodeId, value })
    // 404 means that the node does not have the trace, which is not a failure.
    else if (!(error instanceof MemberFault && error.status === 404)) {
      result.failed.push({ nodeId, name, reason: error.reason, message: error.message })
    }
  }
  return result
}

export function mergeLists (lists: readonly NodeTraces<readonly TraceEntry[]>[]): ListedTrace[] {
  const all = new Map<string, ListedTrace>()
  for (const { nodeId, value } of lists) {
    for (const entry of value) {
      const known = all.get(entry.taskId)
      if (known === undefined) all.set(entry.taskId, { ...entry, sourceNodes: [nodeId] })
      else if (!known.sourceNodes.includes(nodeId)) known.sourceNodes.push(nodeId)
    }
  }
  return [...all.values()].sort((a, b) => a.createdAt < b.createdAt ? 1 : -1)
}

/** Merges the spans of one trace from several nodes, drops duplicates and sorts them by start. Pure. */
export function mergeSpans (lists: readonly NodeTraces<readonly ShownSpan[]>[]): ShownSpan[] {
  const keyOf = ({ nodeId, category, name, startUs, durationUs }: ShownSpan): string =>
    [nodeId, category, name, startUs, durationUs].join('\n')
  // Of equal spans, keep the first.
  const all = new Map(lists.flatMap(({ value }) => value).reverse().map((span) => [keyOf(span), span]))
  return [...all.values()].sort((a, b) => a.startUs - b.startUs)
}

/** Limits for the texts and numbers in other nodes' answers. */
const LIMITS = { maxLength: 512, maximum: Number.MAX_SAFE_INTEGER }

export type PeerReaders = ReturnType<typeof peerReaders>

/** Validators for other nodes' answers; they drop unknown fields and return null for invalid data. */
export function peerReaders ({ checker }: Pick<Context, 'checker'>) {
  /** Creates a validator for the list under `traces` in a node's answer. */
  const listReader = <T>(most: number, declared: { properties: Record<string, object> }) => {
    const keys = Object.keys(declared.properties)
    const properties = Object.fromEntries(Object.entries(declared.properties).map(([key, schema]) =>
      [key, { ...LIMITS, ...schema }]))
    const item = { type: 'object', required: keys, properties } as const
    const problemOf = checker(openObject({ traces: { type: 'array', maxItems: most, items: item } }))
    return (body: unknown): T[] | null => problemOf(body) !== null
      ? null
      : (body as { traces: Record<string, unknown>[] }).traces.map((one) =>
          Object.fromEntries(keys.map((key) => [key, one[key]])) as T)
  }
  const readSpanList = listReader<ShownSpan>(8192, span)
  return {
    readList: listReader<TraceEntry>(10_000, stored),
    readTrace (body: unknown): { taskId: string, spans: ShownSpan[] } | null {
      const spans = readSpanList(body)
      const taskId = (body as { taskId?: unknown } | null)?.taskId
      return spans === null || typeof taskId !== 'string' || taskId.length > LIMITS.maxLength
        ? null
        : { taskId, spans }
    }
  }
}
