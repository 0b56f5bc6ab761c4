import type { ShownSpan } from './chrome.js'
import type { TraceEntry } from './store.js'

/** A trace with the ids of the nodes that keep it. */
export interface ListedTrace extends TraceEntry { sourceNodes: string[] }

/** What one node keeps. */
export interface NodeTraces<T> { nodeId: string, value: T }

/** The traces of several nodes, each once, newest first. What the first node says of one counts. Pure. */
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

/** The spans of one trace from several nodes, each once, in order of their start. Pure. */
export function mergeSpans (lists: readonly NodeTraces<readonly ShownSpan[]>[]): ShownSpan[] {
  const all = new Map<string, ShownSpan>()
  for (const { value } of lists) {
    for (const span of value) {
      const { nodeId, category, name, startUs, durationUs } = span
      const key = [nodeId, category, name, startUs, durationUs].join('\n')
      if (!all.has(key)) all.set(key, span)
    }
  }
  return [...all.values()].sort((a, b) => a.startUs - b.startUs)
}

const MAX_ENTRIES = 10_000
const MAX_SPANS = 8192
const MAX_TEXT = 512

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isText = (value: unknown): value is string => typeof value === 'string' && value.length <= MAX_TEXT
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

function traces (body: unknown, most: number): Record<string, unknown>[] | null {
  const list = isObject(body) ? body['traces'] : undefined
  return Array.isArray(list) && list.length <= most && list.every(isObject) ? list : null
}

/** What another node answered to GET /v1/traces, without fields that are not known; null for nonsense. */
export function readList (body: unknown): TraceEntry[] | null {
  const list = traces(body, MAX_ENTRIES)?.map(readEntry)
  return list === undefined || list.includes(null) ? null : list as TraceEntry[]
}

function readEntry (entry: Record<string, unknown>): TraceEntry | null {
  const { taskId, createdAt, modelId, commandId, taskKind, outcome, durationUs, fileSize } = entry
  const fine = [taskId, createdAt, modelId, commandId, taskKind, outcome].every(isText) &&
    isCount(durationUs) && isCount(fileSize)
  return fine
    ? { taskId, createdAt, modelId, commandId, taskKind, outcome, durationUs, fileSize } as TraceEntry
    : null
}

/** What another node answered to GET /v1/traces/{id}; null for nonsense. */
export function readTrace (body: unknown): { taskId: string, spans: ShownSpan[] } | null {
  const spans = traces(body, MAX_SPANS)?.map(readSpan)
  const taskId = isObject(body) ? body['taskId'] : undefined
  return spans === undefined || spans.includes(null) || !isText(taskId)
    ? null
    : { taskId, spans: spans as ShownSpan[] }
}

function readSpan (span: Record<string, unknown>): ShownSpan | null {
  const { name, startUs, durationUs, rank, category, nodeId, attrs } = span
  const fine = [name, category, nodeId].every(isText) && Number.isSafeInteger(startUs) &&
    isCount(durationUs) && isCount(rank) && isObject(attrs)
  return fine ? { name, startUs, durationUs, rank, category, nodeId, attrs } as ShownSpan : null
}
