import { systemClock } from '../../../kernel/index.js'
import { followEvents, MOMENTS, plain, parseTimeOrIndex } from '../../../kernel/cli/index.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'
import type { EventsPage, ShownEvent } from '../reading/page.js'

/** Number of past events that a followed stream starts with if --since is absent. */
const BEGIN_WITH = '20'

export default {
  async run (ctx, _args, options) {
    const query = queryOf(ctx, options)
    if (options['follow'] === true) await goOn(ctx, query)
    else await once(ctx, query)
  }
} satisfies Verb

/** Builds the query of GET /events. Throws CliError (2) for an invalid --since. */
function queryOf (ctx: VerbContext, options: Record<string, unknown>): Map<string, string> {
  const query = new Map<string, string>()
  const { since, kind, node, limit } = options as
    { since?: string, kind?: string[], node?: string, limit?: string }
  if (since !== undefined) {
    const from = parseTimeOrIndex(since, systemClock.now())
    if (from === null) {
      throw ctx.fail(2, `--since ${since}: ${MOMENTS}`)
    }
    query.set('since', from)
  }
  if (kind !== undefined) query.set('kinds', kind.join(','))
  if (node !== undefined) query.set('node', node)
  if (limit !== undefined) query.set('limit', limit)
  return query
}

const path = (query: Map<string, string>): string => {
  const text = new URLSearchParams([...query]).toString()
  return text === '' ? '/events' : `/events?${text}`
}

async function once ({ client, out, err }: VerbContext, query: Map<string, string>): Promise<void> {
  const page = await client.json<EventsPage>(path(query))
  if (out.json) {
    out.value(page)
    return
  }
  if (page.degraded === true) err.line('this node does not store events now; `svc doctor` shows the reason')
  for (const [from, to] of page.gaps ?? []) err.line(gapLine({ from, to }))
  for (const event of page.events) out.line(lineOf(event))
  if (page.events.length === 0) err.line('no events match')
}

/** Follows the stream until Ctrl-C; after a reconnect it continues at the same position. */
async function goOn (ctx: VerbContext, query: Map<string, string>): Promise<void> {
  query.set('follow', '1')
  if (!query.has('since') && !query.has('limit')) query.set('limit', BEGIN_WITH)
  await followEvents(ctx, () => path(query), ({ type, data, id }) => {
    if (id !== null) {
      query.set('since', id)
      query.delete('limit')
    }
    show(ctx, type, data)
  })
}

function show ({ out, err }: VerbContext, type: string, data: string): void {
  const value = JSON.parse(data) as unknown
  if (type === 'gap') err.line(gapLine(value as { from: number, to: number }))
  else if (out.json) out.value(value)
  else out.line(lineOf(value as ShownEvent))
}

function gapLine ({ from, to }: { from: number, to: number }): string {
  return `events ${from} to ${to} are missing on this node`
}

/** One line of text: time, index, origin, kind, fields. */
function lineOf ({ idx, at, origin, event }: ShownEvent): string {
  const [kind, payload] = Object.entries(event)[0] ?? ['?', {}]
  const details = Object.entries(payload).map(([key, value]) => `${key}=${word(value)}`).join(' ')
  return plain(`${at}  ${idx}  ${origin.slice(0, 8)}  ${kind}  ${details}`).trimEnd()
}

const word = (value: unknown): string => typeof value === 'string' && /^[\w.:/@-]+$/.test(value)
  ? value
  : JSON.stringify(value)
