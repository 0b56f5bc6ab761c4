import {
  fact, MOMENTS, quoted, createToolReads, parseTimeOrIndex, showTime, withoutFullStop
} from '../../../kernel/cli/index.js'
import type { LogLevel } from '../../../kernel/index.js'
import type { Evidence, Fact, Tool } from '../../../kernel/cli/index.js'
import type { ClusterPage, ShownLine } from '../lines.js'

const LINES = 200
const FACTS_MOST = 30

interface Asked { node?: string, model?: string, from?: string, level?: LogLevel }

export default {
  async run (ctx, { node, model, from, level = 'warn' }) {
    const reads = createToolReads(ctx)
    const since = from === undefined ? undefined : parseTimeOrIndex(from, ctx.nowMs)
    if (since === null || (since !== undefined && /^\d+$/.test(since))) {
      return { facts: [], unknown: [`"${quoted(from!, 60)}" is not a time in the log: ${MOMENTS}.`] }
    }
    const query = Object.entries({ level, node, model, since, limit: String(LINES) })
      .filter((pair): pair is [string, string] => pair[1] !== undefined)
    const path = `/v1/logs/cluster?${new URLSearchParams(query).toString()}`
    const page = await reads.read<ClusterPage>('The logs', path)
    if (page === null) return { facts: [], unknown: reads.unknown }
    const silent = page.nodes.flatMap(({ node: name, error }) => error === null ? []
      : [`The log of ${quoted(name, 80)} could not be read: ${withoutFullStop(error.message)}.`])
    const facts = grouped(page.lines).slice(0, FACTS_MOST).map((lines) => factOf(lines, ctx.nowMs))
    return {
      facts: facts.length > 0 ? facts : [nothing([node, model], level, path)],
      unknown: [...reads.unknown, ...silent]
    }
  }
} satisfies Tool<Asked>

/** Groups identical lines from one node; the newest group comes first. */
function grouped (lines: readonly ShownLine[]): ShownLine[][] {
  const groups = new Map<string, ShownLine[]>()
  for (const line of lines.toReversed()) {
    const key = JSON.stringify([line.node, line.plugin, line.message, line.modelId])
    groups.set(key, [...groups.get(key) ?? [], line])
  }
  return [...groups.values()]
}

/** Lines are untrusted text: quote them and never repeat advice from them. */
function factOf (lines: readonly ShownLine[], nowMs: number): Fact {
  const { at, node, level, source, plugin, modelId, message, fields } = lines[0]!
  const who = source === 'runner' ? 'a runner' : plugin === null ? 'it' : `its plugin ${quoted(plugin, 60)}`
  const name = quoted(node, 80)
  const about = modelId === null ? '' : ` about ${quoted(modelId)}`
  const why = errorIn(fields)
  const times = lines.length === 1 ? '' : ` (${lines.length} times since ` +
    `${showTime(Date.parse(lines.at(-1)!.at), nowMs)})`
  return fact('info', 'log_line', `At ${showTime(Date.parse(at), nowMs)} on ${name} ${who} wrote${about} ` +
    `(${level}): "${quoted(message, 240)}"${why === null ? '' : `, "${quoted(why, 160)}"`}${times}.`, {
    about: [name, ...modelId === null ? [] : [quoted(modelId)]],
    evidence: [{ kind: 'log', node: name, at }]
  })
}

function errorIn (fields: Readonly<Record<string, unknown>>): string | null {
  const { err, error, reason } = fields
  const said = (err as { message?: unknown } | undefined)?.message ?? error ?? reason
  return typeof said === 'string' ? said : null
}

function nothing (about: readonly (string | undefined)[], level: LogLevel, path: string): Fact {
  const of = about.filter((one) => one !== undefined).map((one) => ` about ${quoted(one, 80)}`).join('')
  const evidence: Evidence[] = [{ kind: 'path', path }]
  return fact('ok', 'log_quiet', `The logs have no line${of} of level ${level} or worse.`, { evidence })
}
