import { systemClock } from '../../../kernel/index.js'
import {
  followEvents, kindOf, kindWords, MOMENTS, nameOf, plain, parseTimeOrIndex, summaryOf
} from '../../../kernel/cli/index.js'
import type { NamedNodes, Verb, VerbContext } from '../../../kernel/cli/index.js'
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

async function once (ctx: VerbContext, query: Map<string, string>): Promise<void> {
  const { client, out, err } = ctx
  const page = await client.json<EventsPage>(path(query))
  if (out.json) return out.value(page)
  if (page.degraded === true) err.line('this node does not store events now; `svc doctor` shows the reason')
  for (const [from, to] of page.gaps ?? []) err.line(gapLine({ from, to }))
  const names = await namesAt(ctx)
  for (const event of page.events) out.line(lineOf(event, names))
  if (page.events.length === 0) err.line('no events match')
}

/** Follows the stream until Ctrl-C; after a reconnect it continues at the same position. */
async function goOn (ctx: VerbContext, query: Map<string, string>): Promise<void> {
  query.set('follow', '1')
  if (!query.has('since') && !query.has('limit')) query.set('limit', BEGIN_WITH)
  const names = ctx.out.json ? String : await namesAt(ctx)
  await followEvents(ctx, () => path(query), ({ type, data, id }) => {
    if (id !== null) {
      query.set('since', id)
      query.delete('limit')
    }
    show(ctx, type, data, names)
  })
}

function show ({ out, err }: VerbContext, type: string, data: string, names: NameOf): void {
  const value = JSON.parse(data) as unknown
  if (type === 'gap') err.line(gapLine(value as { from: number, to: number }))
  else if (out.json) out.value(value)
  else out.line(lineOf(value as ShownEvent, names))
}

function gapLine ({ from, to }: { from: number, to: number }): string {
  return `events ${from} to ${to} are missing on this node`
}

type NameOf = (nodeId: string) => string

/** The names of the nodes that the state lists; the first letters of the id for other nodes. */
async function namesAt ({ client }: VerbContext): Promise<NameOf> {
  const state = await client.json<NamedNodes>('/state').catch((): Pick<NamedNodes, 'nodeIdentities'> =>
    ({ nodeIdentities: {} }))
  return (id) => state.nodeIdentities[id] === undefined ? id.slice(0, 8) : nameOf(state, id)
}

/** Formats an event: time, index, reporting node, kind and fields. */
function lineOf (event: ShownEvent, names: NameOf): string {
  const { idx, at, origin } = event
  const time = `${at.slice(0, 10)} ${at.slice(11, 19)}`
  return plain(`${time}  ${idx}  ${names(origin)}  ${kindWords(kindOf(event))}: ${summaryOf(event, names)}`)
}
