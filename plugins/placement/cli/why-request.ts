import { systemClock } from '../../../kernel/index.js'
import { isVerbError, plain } from '../../../kernel/cli/index.js'
import type { VerbContext, VerbError } from '../../../kernel/cli/index.js'
import { aboutOf, taskIn, tellsFailure } from './why-facts.js'
import type { Facts, SeenEvent, SeenLine, SeenSpan, StateThen, TraceHead, WhyState } from './why-facts.js'
import { storyOf } from './why-story.js'
import { showStory } from './why-show.js'
import { bodyOf } from '../../runners/service.js'

/** How far around the request events and log lines are looked at, ms. */
const AROUND_MS = 60_000
const MOST = 1000

const UUID = /(?:^|[-_])([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i

/** The id of a command or task in a word, also behind the prefix of an answer's id; null without one. */
export function requestIdIn (word: string): string | null {
  return word.includes('/') ? null : UUID.exec(word)?.[1]?.toLowerCase() ?? null
}

/** Shows what became of a request. Throws CliError (3) when nothing is known of it. */
export async function whyRequest (ctx: VerbContext, id: string): Promise<void> {
  const facts = await gather(ctx, id)
  if (facts.trace === null && facts.failed === null && taskIn(facts.state, id) === null) {
    throw ctx.fail(3, unknown(facts))
  }
  const { manifests } = await ctx.declared()
  const remedies = Object.assign({}, ...manifests.map(({ errors }) => errors ?? {})) as
    Record<string, { remedy: string }>
  const story = storyOf(facts, (reason) => remedies[reason]?.remedy ?? null)
  if (ctx.out.json) ctx.out.value(story)
  else showStory(ctx, story)
}

/** Asks the node; null for what it does not give, which is noted unless `what` is null or it is expected. */
type Look = <T>(what: string | null, path: string, absent?: readonly string[]) => Promise<T | null>

async function gather (ctx: VerbContext, id: string): Promise<Facts> {
  const unseen: string[] = []
  const look: Look = async <T>(what: string | null, path: string, absent: readonly string[] = []) => {
    try {
      return await ctx.client.json<T>(path)
    } catch (error) {
      if (!isVerbError(error) || error.status === undefined) throw error
      const expected = what === null || absent.includes(error.api?.reason ?? '')
      if (!expected) unseen.push(`${what}: ${causeOf(error)}`)
      return null
    }
  }
  const state = await ctx.client.json<WhyState>('/state')
  const [tracing, spans, raw, failures] = await Promise.all([
    look<{ enabled: boolean }>('whether requests are traced', '/v1/tracing'),
    look<{ traces: SeenSpan[] }>('the traces', `/v1/traces/cluster/${id}`, ['trace_not_found']),
    look<{ otherData: TraceHead }>(null, `/v1/traces/cluster/${id}/raw`),
    look<{ events: SeenEvent[] }>('the tasks that failed', `/events?kinds=TaskFailed&limit=${MOST}`)
  ])
  const facts: Facts = {
    id, state, unseen,
    nowMs: systemClock.now(),
    tracing: tracing?.enabled ?? null,
    trace: spans === null ? null : { head: raw?.otherData ?? null, spans: spans.traces },
    failed: failures?.events.findLast((event) => tellsFailure(event, id)) ?? null,
    events: [], then: null, lines: []
  }
  return await lookAround(facts, look)
}

/** Adds what happened at the time of the request, once that is known. */
async function lookAround (facts: Facts, look: Look): Promise<Facts> {
  const { startMs, endMs } = aboutOf(facts)
  if (startMs === null) return facts
  const since = new Date(startMs - AROUND_MS).toISOString()
  const momentMs = Math.min(endMs ?? facts.nowMs, facts.nowMs)
  const until = momentMs + AROUND_MS
  const moment = new Date(momentMs).toISOString()
  const [events, then, logs] = await Promise.all([
    look<{ events: SeenEvent[] }>('the events', `/events?${query({ since, limit: String(MOST) })}`),
    look<StateThen>('the state at that moment', `/state?${query({ at: moment })}`),
    look<{ lines: SeenLine[] }>('the logs', `/v1/logs/cluster?${query({ since, limit: String(MOST) })}`)
  ])
  const ids = [facts.id, aboutOf(facts).taskId, aboutOf(facts).commandId].filter((id) => id !== null)
  return {
    ...facts, then,
    events: (events?.events ?? []).filter(({ at }) => Date.parse(at) <= until),
    lines: (logs?.lines ?? []).filter(({ fields }) => {
      const text = JSON.stringify(fields)
      return ids.some((id) => text.includes(id))
    })
  }
}

const query = (fields: Record<string, string>): string => new URLSearchParams(fields).toString()

/** Why something could not be looked at, on one line. */
function causeOf ({ message, status, api }: VerbError): string {
  if (status === 401 || status === 403) return 'that needs the authority "operator" (--token)'
  if (api === undefined || api.reason === 'not_found') return 'this node does not have that'
  return plain(message.split('\n')[0]!)
}

function unknown ({ id, state, tracing, unseen }: Facts): string {
  const instance = state.instances[id]
  if (instance !== undefined) {
    const { modelId } = bodyOf(instance).shardAssignments
    return `${id} is an instance of ${plain(modelId)}, no request; svc why ${plain(modelId)} tells of it`
  }
  return [
    `nothing is known of a command or task ${id}`,
    '  looked at: the tasks under way or just over (GET /state), the tasks that failed (GET /events), ' +
    'the traces of all nodes (GET /v1/traces/cluster)',
    ...unseen.map((text) => `  not looked at: ${text}`),
    ...tracing === false
      ? ['  requests are not traced now, so one that ended well leaves nothing behind: svc traces on']
      : [],
    '  its id is in the header x-svc-command-id of the answer; svc traces and svc events list some'
  ].join('\n')
}
