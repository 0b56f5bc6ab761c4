import { plain } from '../../../kernel/cli/index.js'
import type { VerbContext } from '../../../kernel/cli/index.js'
import type { Gap, NodeStatus, ShownLine } from '../lines.js'

type Paint = VerbContext['err']['paint']

const COLOURS = {
  trace: 'dim', debug: 'dim', info: 'green', warn: 'yellow', error: 'red', fatal: 'red'
} as const

/** Fields that are shown in another way. */
const SHOWN = new Set(['modelId', 'runnerId', 'instanceId', 'stream'])
/** Longest value of a field that a person reads. */
const VALUE_CHARS = 300
/** Names of nodes are padded to the longest so far, up to this. */
const NODE_CHARS = 20

/** Makes lines for people: when, which node, how grave, who, what, and the fields. */
export function createLineText (paint: Paint): (line: ShownLine) => string {
  let width = 0
  return (line) => {
    const { at, node, level, message } = line
    width = Math.min(NODE_CHARS, Math.max(width, node.length))
    const details = Object.entries(line.fields).filter(([key]) => line.source === 'node' || !SHOWN.has(key))
      .map(([key, value]) => `${key}=${word(value)}`)
    return [
      paint('dim', at), paint('bold', plain(node).padEnd(width)), paint(COLOURS[level], level.padEnd(5)),
      plain(whoseOf(line)), plain([message, ...details].join('  '))
    ].join('  ').trimEnd()
  }
}

function whoseOf ({ source, plugin, modelId, runnerId }: ShownLine): string {
  if (source === 'node') return plugin ?? 'node'
  return `${modelId ?? 'a model'}#${(runnerId ?? '').slice(0, 8)}`
}

function word (value: unknown): string {
  if (typeof value === 'string' && /^[\w.:/@-]+$/.test(value)) return value
  const message = (value as { message?: unknown } | null)?.message
  // An error: its stack is for programs.
  const text = JSON.stringify(typeof message === 'string' ? message : value) ?? ''
  return text.length > VALUE_CHARS ? `${text.slice(0, VALUE_CHARS)}…` : text
}

/** The text about a node that stopped answering or answers again. */
export function statusText ({ node, error }: NodeStatus): string {
  return plain(error === null ? `${node} is back` : `no lines from ${node}: ${error.message}`)
}

/** The text about lines that were dropped unread. */
export function gapText ({ node, lost }: Gap): string {
  return plain(`${lost} lines of ${node} were gone before they could be read`)
}
