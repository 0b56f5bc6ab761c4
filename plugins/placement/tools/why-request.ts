import { fact, isVerbError, showMs, unreadableSentence } from '../../../kernel/cli/index.js'
import type { Evidence, Fact, Finding, Tool, ToolContext, VerbError } from '../../../kernel/cli/index.js'
import { remediesIn } from '../../runners/service.js'
import { gather, isKnown, unknownText } from './request-facts.js'
import type { RequestFacts } from './request-facts.js'
import { sentenceEnd } from './request-words.js'
import { storyOf } from './request-history.js'
import type { RequestHistory } from './request-history.js'

const UUID = /(?:^|[-_])([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i

/** The command or task id in `word`, which may have the prefix of a response id; null if there is none. */
export function requestIdIn (word: string): string | null {
  return word.includes('/') ? null : UUID.exec(word)?.[1]?.toLowerCase() ?? null
}

/** If there is no record of the request, `nothing` explains why. */
export type RequestWhy = { story: RequestHistory, nothing?: never } | { nothing: string, facts: RequestFacts }

/** Explains a request. Resolves to the node's error if the node refuses GET /state. */
export async function whyRequest (
  ctx: Pick<ToolContext, 'look' | 'nowMs' | 'declared'>, id: string
): Promise<RequestWhy | VerbError> {
  const facts = await gather(ctx, id)
  if (isVerbError(facts)) return facts
  if (!isKnown(facts)) return { nothing: unknownText(facts), facts }
  const remedies = remediesIn(await ctx.declared())
  return { story: storyOf(facts, (reason) => remedies[reason]?.remedy ?? null) }
}

export default {
  async run (ctx, { id: word }) {
    const id = requestIdIn(word)
    if (id === null) return { facts: [], unknown: [`${word} is not the id of a command or task.`] }
    const why = await whyRequest(ctx, id)
    if (isVerbError(why)) return { facts: [], unknown: [unreadableSentence('The state of the cluster', why)] }
    if (why.nothing !== undefined) {
      return { facts: [], unknown: why.nothing.split('\n').map((line) => `${line.trim()}.`) }
    }
    return findingOf(why.story)
  }
} satisfies Tool<{ id: string }>

/** The code of the cause for each event name; most likely cause first. */
const CAUSES: Readonly<Record<string, string>> = {
  NodeTimedOut: 'node_lost', NodeRemoved: 'node_removed', NodeRestarted: 'node_restarted',
  ProtocolViolation: 'protocol_violation', RunnerFailed: 'runner_failed',
  InstanceFailureRecorded: 'runner_failed', DownloadFailed: 'files_missing',
  InstanceUnloaded: 'model_unloaded', SessionChanged: 'session_changed', InstanceDeleted: 'model_stopped'
}

const LEVELS = { completed: 'ok', failed: 'fail', cancelled: 'info', open: 'info', unknown: 'info' } as const
const ENDS = {
  completed: 'completed', failed: 'failed', cancelled: 'was cancelled', open: 'is still in progress',
  unknown: 'has ended, but its outcome was not recorded'
} as const

/** Converts the history to facts: how it ended, possible causes, and the time per step. Pure. */
export function findingOf (story: RequestHistory): Finding {
  const { asked, ended, lost, ran, tookMs, around, unseen, id } = story
  const about = [asked.taskId ?? id, ...asked.modelId === null ? [] : [asked.modelId], ...ran]
  const evidence: Evidence[] = [
    ...asked.taskId === null || story.parts.length === 0
      ? []
      : [{ kind: 'trace', taskId: asked.taskId } as const],
    ...ended.reason === null ? [] : [{ kind: 'error', reason: ended.reason } as const],
    ...asked.at === null ? [] : [{ kind: 'time', at: asked.at } as const],
    ...lost === null ? [] : [{ kind: 'log', node: lost.node, at: lost.at } as const]
  ]
  const where = ran.length === 0 ? '' : ` on ${ran.join(', ')}`
  const took = tookMs === null ? '' : ` after ${showMs(tookMs)}`
  const why = [ended.reason, ended.message].filter((text) => text !== null && text !== '').join(': ')
  const what = `${asked.kind ?? 'request'} for ${asked.modelId ?? 'an unrecorded model'}` +
    (asked.at === null ? '' : `, received at ${asked.at}`)
  const text = `The request ${id} (${what}) ${ENDS[ended.how]}${where}${took}` +
    `${why === '' ? '' : `: ${sentenceEnd(why)}`}.`
  const main = fact(LEVELS[ended.how], `request_${ended.how}`, text,
    { about, evidence, remedy: sentence(story.next[0]) })
  const events = around.map(({ idx, at, name, text }) =>
    fact('info', CAUSES[name] ?? 'event', `${at}: ${sentenceEnd(text)}.`,
      { about, evidence: [{ kind: 'event', idx, at, name }] }))
  const causes = Object.values(CAUSES).filter((code, i, all) => all.indexOf(code) === i)
    .flatMap((code) => events.filter((fact) => fact.code === code))
  return {
    facts: [main, ...causes, ...timesOf(story, about), ...events.filter((fact) => !causes.includes(fact)),
      ...logsOf(story, about)],
    unknown: unseen.map((text) => `Not checked: ${text}.`)
  }
}

function sentence (step: string | undefined): string | null {
  if (step === undefined) return null
  const at = step.indexOf('svc ')
  const marked = at < 0 ? step : `${step.slice(0, at)}\`${step.slice(at)}\``
  return step.includes('`') ? step : `${marked}${step.endsWith('.') ? '' : '.'}`
}

function timesOf ({ parts, tookMs, id, asked }: RequestHistory, about: readonly string[]): Fact[] {
  if (parts.length === 0 || tookMs === null) return []
  const longest = [...parts].sort((a, b) => b.tookMs - a.tookMs).slice(0, 4)
  const said = longest.map((part) => `${showMs(part.tookMs)} it ${part.words} (${part.node})`)
  const taskId = asked.taskId ?? id
  return [fact('info', 'request_times', `Of ${showMs(tookMs)}: ${said.join('; ')}.`, {
    about, evidence: [{ kind: 'trace', taskId }],
    remedy: `Every step with its time: \`svc traces ${taskId}\`.`
  })]
}

function logsOf ({ logs }: RequestHistory, about: readonly string[]): Fact[] {
  return logs.map(({ at, node, text }) => fact('info', 'log', `${node} logged ` +
    `at ${at}: ${sentenceEnd(text)}.`,
  { about, evidence: [{ kind: 'log', node, at }] }))
}
