import { plain, showMs, type Verb, type VerbContext } from '../../../kernel/cli/index.js'
import { TRACE_ID, type ShownSpan } from '../trace-file.js'
import { stepsOf } from '../stats.js'
import type { ListedTrace, FailedPeer } from '../peers.js'

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
  if (out.json) return out.value(listed)
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
  if (out.json) return out.value(shown)
  printFailed(err, shown.failed)
  const { nodeIdentities } = await client.json<State>('/state')
  const nameOf = (nodeId: string): string =>
    plain(nodeIdentities[nodeId]?.friendlyName ?? nodeId.slice(0, 12))
  const [first] = shown.traces
  out.line(`task ${shown.taskId}${first === undefined ? '' : `, started ${whenOf(first)}`}`)
  out.table(['NODE', 'STEP', 'START', 'TOOK'], stepRows(shown.traces, nameOf))
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

/** A human-readable duration: `312 us`, `4.2 ms`, `1.31 s`, `2m10s`. */
export const showMicros = (us: number): string => us < 1000 ? `${Math.round(us)} us` : showMs(us / 1000)

/** Up to this many spans with the same node, category and name get a row each; more share one row. */
const SINGLE_MAX = 4

const sum = (spans: readonly ShownSpan[], of: (span: ShownSpan) => number): number =>
  spans.reduce((all, span) => all + of(span), 0)

/** The rows of a trace in order of start: node, step, start and duration. Pure. */
export function stepRows (spans: readonly ShownSpan[], nameOf: (nodeId: string) => string): string[][] {
  const groups = new Map<string, ShownSpan[]>()
  for (const span of spans) {
    const key = [span.nodeId, span.category, span.name].join('\n')
    groups.set(key, [...groups.get(key) ?? [], span])
  }
  const startOf = (group: readonly ShownSpan[]): number => Math.min(...group.map(({ startUs }) => startUs))
  const zero = startOf(spans)
  return [...groups.values()]
    .flatMap((group) => sum(group, stepsOf) > SINGLE_MAX ? [group] : group.map((span) => [span]))
    .sort((a, b) => startOf(a) - startOf(b)).map((group) => {
      const { nodeId, name } = group[0]!
      const [us, steps] = [sum(group, ({ durationUs }) => durationUs), sum(group, stepsOf)]
      const [times, each] = steps > 1 ? [` x${steps}`, ` (${showMicros(us / steps)} each)`] : ['', '']
      return [nameOf(nodeId), plain(`${name}${times}`), `+${showMicros(startOf(group) - zero)}`,
        `${showMicros(us)}${each}`]
    })
}
