import { logLevels } from '../../kernel/index.js'
import type { FromSchema, LogLine, LogRing, LogFilter } from '../../kernel/index.js'
import type { routes } from './routes.js'

export interface NodeRef { readonly nodeId: string, readonly node: string }

export interface ShownLine extends LogLine, NodeRef {}

export type LogPage = FromSchema<typeof routes.here.reply>
export type ClusterPage = FromSchema<typeof routes.cluster.reply>

export interface Gap extends NodeRef { lost: number }

export function pageOf (ring: LogRing, self: NodeRef, want: LogFilter): LogPage {
  const { nodeId, node } = self
  const lines = ring.lines(want).map((line): ShownLine => ({ nodeId, node, ...line }))
  return { nodeId, node, firstSeq: ring.firstSeq, nextSeq: ring.nextSeq, lines }
}

/** Sorts lines by time; lines from one node stay in the order of their seq. */
export function inOrder (lines: readonly ShownLine[]): ShownLine[] {
  return [...lines].sort((a, b) => a.nodeId === b.nodeId
    ? a.seq - b.seq
    : compare(a.at, b.at) || compare(a.nodeId, b.nodeId))
}

const compare = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0

/** Validates a line and sets the identity to the node that was asked; null if the line is invalid. */
export function readLine (value: unknown, self: NodeRef): ShownLine | null {
  const line = value as Partial<LogLine> | null
  const fine = typeof line === 'object' && line !== null && Number.isSafeInteger(line.seq) &&
    typeof line.at === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(line.at) &&
    logLevels.includes(line.level!) && typeof line.message === 'string' &&
    typeof line.fields === 'object' && line.fields !== null && !Array.isArray(line.fields)
  if (!fine) return null
  const { seq, at, level, message, fields } = line as LogLine
  return {
    nodeId: self.nodeId, node: self.node, seq, at, level, message, fields,
    source: line.source === 'runner' ? 'runner' : 'node',
    plugin: textOr(line.plugin), modelId: textOr(line.modelId), runnerId: textOr(line.runnerId)
  }
}

const textOr = (value: unknown): string | null => typeof value === 'string' ? value : null

/** The page that another node sent; null if invalid. */
export function readPage (text: string, self: NodeRef): LogPage | null {
  let page: Partial<LogPage> | null
  try { page = JSON.parse(text) as Partial<LogPage> | null } catch { return null }
  if (!Array.isArray(page?.lines) || !Number.isSafeInteger(page.nextSeq)) return null
  const lines = page.lines.map((line) => readLine(line, self))
  if (lines.includes(null)) return null
  return { ...self, firstSeq: Number(page.firstSeq), nextSeq: page.nextSeq!, lines: lines as ShownLine[] }
}
