import { plain } from '../../../kernel/cli/index.js'
import type { VerbContext } from '../../../kernel/cli/index.js'
import type { Gap, NodeStatus, ShownLine } from '../lines.js'

type Paint = VerbContext['err']['paint']

const COLOURS = {
  trace: 'dim', debug: 'dim', info: 'green', warn: 'yellow', error: 'red', fatal: 'red'
} as const

/** Fields left out of a line because the source column already shows them. */
const SHOWN = new Set(['modelId', 'runnerId', 'instanceId', 'stream'])
const VALUE_CHARS = 300
/** Limit on the padding that aligns node names to the longest name so far. */
const NODE_CHARS = 20

/** Formats lines as time, node, level, source, message and fields. */
export function createLineText (paint: Paint): (line: ShownLine) => string {
  let width = 0
  return (line) => {
    const { at, node, level, message } = line
    width = Math.min(NODE_CHARS, Math.max(width, node.length))
    const details = Object.entries(line.fields).filter(([key]) => line.source === 'node' || !SHOWN.has(key))
      .map(([key, value]) => `${key}=${fieldText(value)}`)
    return [
      paint('dim', at), paint('bold', plain(node).padEnd(width)), paint(COLOURS[level], level.padEnd(5)),
      plain(sourceOf(line)), plain([message, ...details].join('  '))
    ].join('  ').trimEnd()
  }
}

function sourceOf ({ source, plugin, modelId, runnerId }: ShownLine): string {
  if (source === 'node') return plugin ?? 'node'
  return `${modelId ?? 'a model'}#${(runnerId ?? '').slice(0, 8)}`
}

function fieldText (value: unknown): string {
  if (typeof value === 'string' && /^[\w.:/@-]+$/.test(value)) return value
  const message = (value as { message?: unknown } | null)?.message
  // For an error, keep the message and omit the stack.
  const text = JSON.stringify(typeof message === 'string' ? message : value) ?? ''
  return text.length > VALUE_CHARS ? `${text.slice(0, VALUE_CHARS)}…` : text
}

export function statusText ({ node, error }: NodeStatus): string {
  return plain(error === null ? `${node} is back` : `no lines from ${node}: ${error.message}`)
}

export function gapText ({ node, lost }: Gap): string {
  return plain(`${lost} lines of ${node} were dropped before they could be read`)
}
