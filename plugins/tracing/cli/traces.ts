import { plain, formatDuration } from '../../../kernel/cli/index.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'
import { TRACE_ID } from '../trace-file.js'
import { stepsOf } from '../stats.js'
import type { ShownSpan } from '../trace-file.js'
import type { ListedTrace } from '../peers.js'
import type { FailedPeer } from '../peers.js'

interface Listed { traces: ListedTrace[], failed?: FailedPeer[] }
interface Shown { taskId: string, traces: ShownSpan[], failed?: FailedPeer[] }
interface State { nodeIdentities: Record<string, { friendlyName: string | null }> }

const LIST_MAX = '20'

export default {
  async run (ctx, args, options) {
    const [id] = args
    const base = options['local'] === true ? '/v1/traces' : '/v1/traces/cluster'
    if (id === undefined) await list(ctx, base, options)
    else if (id === 'on' || id === 'off') await setTracing(ctx, id === 'on')
    else if (!TRACE_ID.test(id)) throw ctx.fail(2, `"${plain(id)}" is not a task id or command id`)
    else if (typeof options['output'] === 'string') await save(ctx, `${base}/${id}/raw`, options['output'])
    else await show(ctx, `${base}/${id}`)
  }
} satisfies Verb

async function setTracing ({ client, out }: VerbContext, enabled: boolean): Promise<void> {
  const answer = await client.json<{ enabled: boolean }>('/v1/tracing', { method: 'PUT', body: { enabled } })
  if (out.json) out.value(answer)
  else if (answer.enabled) out.line('New requests are traced on every node; "svc traces" lists them.')
  else out.line('New requests are no longer traced; saved traces are kept.')
}

async function list ({ client, out, err }: VerbContext, base: string, options: Record<string, unknown>):
Promise<void> {
  const limit = typeof options['limit'] === 'string' ? options['limit'] : LIST_MAX
  const listed = await client.json<Listed>(`${base}?limit=${encodeURIComponent(limit)}`)
  if (out.json) {
    out.value(listed)
    return
  }
  printFailed(err, listed.failed)
  if (listed.traces.length === 0) {
    const { enabled } = await client.json<{ enabled: boolean }>('/v1/tracing')
    err.line(enabled
      ? 'no requests have been traced yet'
      : 'there are no traces; "svc traces on" starts tracing new requests')
    return
  }
  out.table(['TASK', 'WHEN', 'KIND', 'MODEL', 'TOOK', 'ENDED'], listed.traces.map((trace) =>
    [trace.taskId, trace.createdAt, trace.taskKind, trace.modelId, showMicros(trace.durationUs),
      trace.outcome]))
}

async function show ({ client, out, err }: VerbContext, path: string): Promise<void> {
  const shown = await client.json<Shown>(path)
  if (out.json) {
    out.value(shown)
    return
  }
  printFailed(err, shown.failed)
  const { nodeIdentities } = await client.json<State>('/state')
  const nameOf = (nodeId: string): string =>
    plain(nodeIdentities[nodeId]?.friendlyName ?? nodeId.slice(0, 12))
  const [first] = shown.traces
  out.line(`task ${shown.taskId}${first === undefined ? '' : `, started ${whenOf(first)}`}`)
  for (const line of waterfall(shown.traces, nameOf)) out.line(plain(line))
  for (const line of clockLines(shown.traces)) out.line(line)
}

const whenOf = ({ startUs }: ShownSpan): string => new Date(startUs / 1000).toISOString()

/** Lines about the other nodes whose clocks were corrected, with the uncertainty. */
function clockLines (spans: readonly ShownSpan[]): string[] {
  return spans.filter(({ name, attrs }) => name === 'network' && typeof attrs['clock_offset_us'] === 'number')
    .map(({ attrs }) => `The clock of ${plain(String(attrs['node']))} was corrected, with an ` +
      `uncertainty of ${showMicros(Number(attrs['clock_uncertainty_us']))}.`)
}

async function save ({ client, out, err, sink }: VerbContext, path: string, file: string): Promise<void> {
  const trace = await client.json<unknown>(path)
  const target = sink(file)
  try {
    await target.write(Buffer.from(JSON.stringify(trace)))
    await target.keep()
  } catch (error) {
    await target.drop()
    throw error
  }
  if (file === '-') return
  if (out.json) out.value({ file })
  else err.line(`wrote ${plain(file)}; open it at https://ui.perfetto.dev`)
}

function printFailed (err: VerbContext['err'], failed: readonly FailedPeer[] = []): void {
  for (const { name, message } of failed) err.line(`${plain(name)} ${plain(message)}`)
}

/** A line of the waterfall: one span, or many spans with the same node, category and name. */
interface Row { title: string, startUs: number, endUs: number, busyUs: number, count: number, depth: number }

/** Up to this many spans with the same node, category and name get a line each; more share one line. */
const SINGLE_MAX = 4
const BAR = 32

/** A human-readable duration: `312 us`, `4.2 ms`, `1.31 s`, `2m10s`. */
export function showMicros (us: number): string {
  if (us < 1000) return `${Math.round(us)} us`
  if (us < 1e6) return `${(us / 1000).toFixed(us < 1e5 ? 1 : 0)} ms`
  return us < 6e7 ? `${(us / 1e6).toFixed(2)} s` : formatDuration(us / 1e6)
}

const endOf = ({ startUs, durationUs }: ShownSpan): number => startUs + durationUs

/** Formats a trace as lines of node, name, bar on the time axis, start and duration. Pure. */
export function waterfall (spans: readonly ShownSpan[], nameOf: (nodeId: string) => string): string[] {
  if (spans.length === 0) return []
  const from = Math.min(...spans.map(({ startUs }) => startUs))
  const to = Math.max(...spans.map(endOf))
  const rows = rowsOf(spans)
  const nodes = rows.map(({ span }) => nameOf(span.nodeId))
  const titles = rows.map(({ row: { title, count, depth } }) =>
    `${'  '.repeat(depth)}${title}${count > 1 ? ` x${count}` : ''}`)
  const width = (texts: string[]): number => Math.max(...texts.map((text) => text.length))
  const [nodeWidth, titleWidth] = [width(nodes), width(titles)]
  return rows.map(({ row }, i) => {
    const took = row.count > 1
      ? `${showMicros(row.busyUs)} (${showMicros(row.busyUs / row.count)} each)`
      : showMicros(row.busyUs)
    return `${nodes[i]!.padEnd(nodeWidth)}  ${titles[i]!.padEnd(titleWidth)}  ` +
      `|${bar(row, from, Math.max(1, to - from))}|  +${showMicros(row.startUs - from)}  ${took}`
  })
}

function bar ({ startUs, endUs }: Row, from: number, length: number): string {
  const first = Math.min(BAR - 1, Math.floor((startUs - from) / length * BAR))
  const last = Math.max(first + 1, Math.min(BAR, Math.ceil((endUs - from) / length * BAR)))
  return ' '.repeat(first) + '='.repeat(last - first) + ' '.repeat(BAR - last)
}

function rowsOf (spans: readonly ShownSpan[]): { row: Row, span: ShownSpan }[] {
  const groups = new Map<string, ShownSpan[]>()
  for (const span of spans) {
    const key = [span.nodeId, span.category, span.name].join('\n')
    groups.set(key, [...groups.get(key) ?? [], span])
  }
  const rows = [...groups.values()].flatMap((group) => {
    const steps = group.reduce((sum, span) => sum + stepsOf(span), 0)
    return steps > SINGLE_MAX
      ? [{ span: group[0]!, row: rowOf(group, steps) }]
      : group.map((span) => ({ span, row: rowOf([span], stepsOf(span)) }))
  }).sort((a, b) => a.row.startUs - b.row.startUs || b.row.endUs - a.row.endUs)
  return rows.map(({ row, span }, i) => ({ span, row: { ...row, depth: depthOf(rows.slice(0, i), row) } }))
}

function rowOf (group: readonly ShownSpan[], count: number): Row {
  return {
    title: group[0]!.name,
    startUs: Math.min(...group.map(({ startUs }) => startUs)),
    endUs: Math.max(...group.map(endOf)),
    busyUs: group.reduce((sum, { durationUs }) => sum + durationUs, 0),
    count,
    depth: 0
  }
}

/** Nesting depth: counts the lines above that enclose this one, with 100 us tolerance for clock errors. */
function depthOf (above: readonly { row: Row }[], { startUs, endUs }: Row): number {
  const slackUs = 100
  return Math.min(6, above.filter(({ row }) => row.count === 1 && row.startUs <= startUs &&
    row.endUs >= endUs - slackUs && row.endUs - row.startUs > endUs - startUs).length)
}
