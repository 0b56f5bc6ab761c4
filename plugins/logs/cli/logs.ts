import { systemClock } from '../../../kernel/index.js'
import { followEvents, parseTimeOrIndex, plain } from '../../../kernel/cli/index.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'
import type { ClusterPage, Gap, ShownLine } from '../lines.js'

/** Default number of lines shown before following. */
const BEGIN_WITH = '20'
/** Exit code if no node answered. */
const UNREACHABLE = 7

export default {
  async run (ctx, _args, options) {
    const query = queryOf(ctx, options)
    const show = printer(ctx, patternOf(ctx, options['grep'] as string | undefined))
    if (options['follow'] !== true) return await printPage(ctx, query, show)
    await followStream(ctx, query, show)
  }
} satisfies Verb

/** The query parameters for GET /v1/logs/cluster. Throws CliError (exit code 2) for an invalid --since. */
function queryOf (ctx: VerbContext, options: Record<string, unknown>): Map<string, string> {
  const query = new Map<string, string>()
  for (const name of ['node', 'model', 'plugin', 'level', 'limit']) {
    const value = options[name]
    if (typeof value === 'string') query.set(name, value)
  }
  const since = options['since'] as string | undefined
  if (since !== undefined) {
    const from = parseTimeOrIndex(since, systemClock.now())
    if (from === null || /^\d+$/.test(from)) {
      throw ctx.fail(2,
        `--since ${since}: expected a duration such as 10m or a time such as 2026-01-31T08:00Z`)
    }
    query.set('since', from)
  }
  return query
}

/** Compiles the --grep pattern. Throws CliError (exit code 2) for an invalid one. */
function patternOf (ctx: VerbContext, grep: string | undefined): RegExp | null {
  try {
    return grep === undefined ? null : new RegExp(grep, 'i')
  } catch (error) {
    throw ctx.fail(2, `--grep ${grep}: ${(error as Error).message}`)
  }
}

const path = (query: Map<string, string>): string => `/v1/logs/cluster?${new URLSearchParams([...query])}`

function printer ({ out, err, io }: VerbContext, pattern: RegExp | null): (line: ShownLine) => void {
  const textOf = createLineText(io.stdout.isTTY === true ? err.paint : (_, text) => text)
  const bare = createLineText((_, text) => text)
  return (line) => {
    if (pattern !== null && !pattern.test(bare(line))) return
    if (out.json) out.value(line)
    else out.line(textOf(line))
  }
}

async function printPage (
  { client, err, out }: VerbContext, query: Map<string, string>, show: (line: ShownLine) => void
): Promise<number> {
  const { nodes, lines } = await client.json<ClusterPage>(path(query))
  lines.forEach(show)
  for (const { node, error } of nodes) {
    if (error !== null) err.line(plain(`no lines from ${node}: ${error.message}`))
  }
  if (lines.length === 0 && !out.json) err.line('no matching lines')
  return nodes.some(({ error }) => error === null) ? 0 : UNREACHABLE
}

/** Follows the stream until Ctrl-C; reconnects and resumes at its position. */
async function followStream (
  ctx: VerbContext, query: Map<string, string>, show: (line: ShownLine) => void
): Promise<void> {
  query.set('follow', '1')
  if (!query.has('since') && !query.has('limit')) query.set('limit', BEGIN_WITH)
  await followEvents(ctx, () => path(query), ({ type, data }) => {
    if (type === 'gap') ctx.err.line(gapText(JSON.parse(data) as Gap))
    if (type !== 'message') return
    const line = JSON.parse(data) as ShownLine
    query.set('since', `${line.nodeId}:${line.seq}`)
    query.delete('limit')
    show(line)
  })
}

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

export function gapText ({ node, lost }: Gap): string {
  return plain(`${lost} lines of ${node} were dropped before they could be read`)
}
