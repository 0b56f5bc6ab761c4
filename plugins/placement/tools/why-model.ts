import { delay, systemClock } from '../../../kernel/index.js'
import {
  fact, isVerbError, lookedAt, modelInPath, quoted, createToolReads, unreadableSentence, type Evidence,
  type Fact, type Finding, type ToolReads, type Tool, type ToolContext, type VerbError
} from '../../../kernel/cli/index.js'
import { nameOf } from '../cli/state.js'
import { modelOf, nodesOf } from '../place/instance.js'
import { serves } from '../progress/progress.js'
import { bodyOf, type Instance } from '../../runners/service.js'
import { whyModel, type ChainLink, type ModelDiagnosis } from './model-chain.js'
import { sentenceEnd, worstFirst } from './request-words.js'
import { partsOf, type SeenEvent, type WhyState } from './request-facts.js'

export default {
  async run (ctx, { model }) {
    const why = await whyModel(patient(ctx.look), model)
    if (isVerbError(why)) return refused(why, model)
    const looked = createToolReads(ctx)
    const { read, unknown } = looked
    const kinds = why.broken === undefined ? ['RunnerStatusUpdated'] : KINDS
    const [state, log] = await Promise.all([
      read<WhyState>('The state of the cluster', '/state'),
      read<{ events: SeenEvent[] }>('The events', `/events?kinds=${kinds.join(',')}&limit=1000`)
    ])
    if (state === null) return { facts: [], unknown }
    const instances = Object.values(state.instances).filter((one) => modelOf(one) === model)
    const seen = { why, state, events: log?.events ?? [], instances }
    if (why.broken === undefined) return { facts: [answers(seen)], unknown }
    const code = codeOf(why.broken)
    const off = CODES_OF_PLUGINS.has(code) ? await pluginsOff(looked) : []
    return { facts: worstFirst(factsOf(seen, why.broken, off)), unknown }
  }
} satisfies Tool<{ model: string }>

/** Limit in ms on the wait for an answer from the model; the tool's own limit is 5 s. */
const ANSWER_MS = 3500

const KINDS = [
  'InstanceCreated', 'InstanceDeleted', 'InstanceUnloaded', 'InstanceWaiting', 'InstanceFailureRecorded',
  'RunnerFailed', 'DownloadFailed', 'NodeTimedOut'
]

/** Wraps `look`, so that a /readyz that takes too long counts as not ready. */
function patient (look: ToolContext['look']): ToolContext['look'] {
  const message = `a small request was not answered within ${ANSWER_MS / 1000} s`
  const late = JSON.stringify({ error: { code: 503, reason: 'not_ready', message } })
  return async <T>(path: string) => {
    if (!path.startsWith('/readyz')) return await look<T>(path)
    const over = new AbortController()
    const overdue = delay(systemClock, ANSWER_MS, over.signal).then(() => lookedAt<T>(503, late))
    overdue.catch(() => {})
    return await Promise.race([look<T>(path), overdue]).finally(() => { over.abort() })
  }
}

/** The finding if the availability route fails, for instance because the models plugin is disabled. */
function refused (error: VerbError, modelId: string): Finding {
  const plugin = error.api?.details?.['plugin']
  if (error.api?.reason !== 'plugin_disabled' || typeof plugin !== 'string') {
    return { facts: [], unknown: [unreadableSentence(`What keeps ${modelId} from answering`, error)] }
  }
  return { facts: [offFact(modelId, plugin)], unknown: [] }
}

const offFact = (modelId: string, plugin: string, level: Fact['level'] = 'fail'): Fact =>
  fact(level, 'plugin_off', `The plugin ${plugin} is disabled here, so ${modelId} may not run.`, {
    about: [modelId, plugin], evidence: [{ kind: 'path', path: '/v1/plugins' }],
    remedy: `Enable it: \`svc plugin enable ${plugin}\`, then restart the node.`
  })

/** Codes of availability problems that a disabled plugin may explain. */
const CODES_OF_PLUGINS: ReadonlySet<string> = new Set(['plugin_off', 'model_unknown'])

async function pluginsOff ({ read }: ToolReads): Promise<string[]> {
  const list = await read<{ plugins: { name: string, enabled: boolean }[] }>(
    'Which plugins are disabled', '/v1/plugins')
  return (list?.plugins ?? []).filter(({ enabled }) => !enabled).map(({ name }) => quoted(name))
}

/** The code for each link, for nodes with an older release, which send no code. */
const BY_LINK: Readonly<Record<string, string>> = {
  card: 'model_unknown', copy: 'files_missing', backend: 'backend_missing', placement: 'not_placed',
  runner: 'loading', request: 'not_answering'
}
const codeOf = ({ code, link }: ChainLink): string => code ?? BY_LINK[link] ?? 'unavailable'

interface Seen {
  why: ModelDiagnosis
  state: WhyState
  events: readonly SeenEvent[]
  instances: readonly Instance[]
}

/** Facts about the broken link, followed by facts that explain it. Pure. */
function factsOf (seen: Seen, broken: ChainLink, off: readonly string[]): Fact[] {
  const { why: { modelId, sums, ...why }, state, instances } = seen
  const code = codeOf(broken)
  const { message, remedy } = broken
  const cause = { code, message, remedy, evidence: [], about: [], ...causeIn(seen, broken.link, code) }
  const nodes = instances.flatMap(nodesOf).map((id) => nameOf(state, id))
  const main = fact(PASSING.has(cause.code) ? 'warn' : 'fail', cause.code,
    `${modelId} does not answer: ${sentenceEnd(cause.message)}.`, {
      about: [...new Set([modelId, ...cause.about, ...nodes])],
      evidence: [...cause.evidence, { kind: 'path', path: `/models/${modelInPath(modelId)}/availability` }],
      remedy: cause.remedy
    })
  // A model that comes with svc is unknown only if the plugin that bundles it is disabled.
  const ships = modelId.startsWith('svc/')
  const plugins = off.map((plugin) => offFact(modelId, plugin, ships ? 'fail' : 'info'))
  const more = sums.length === 0 || cause.code === 'does_not_fit' ? [] : [fact('warn', 'does_not_fit',
    `${modelId}: ${sums.map(sentenceEnd).join('; ')}.`,
    { about: [modelId], remedy: wayOut({ modelId, ...why }) })]
  return ships ? [...plugins, main, ...more] : [main, ...plugins, ...more]
}

const PASSING: ReadonlySet<string> = new Set(['loading', 'files_coming', 'session_new', 'draining'])

function wayOut ({ modelId, ways }: Pick<ModelDiagnosis, 'modelId' | 'ways'>): string {
  const way = ways.find(({ command }) => command !== null) ?? ways[0]
  const change = way === undefined ? 'Free memory, or add a node'
    : way.command === null ? `It would fit after this: ${way.text}` : `Make it fit: \`${way.command}\``
  return `${change}; the calculation: \`svc place ${modelId} --dry-run --explain\`.`
}

/** Replacements for the code, message and remedy of a broken link. */
interface Cause { code?: string, message?: string, remedy?: string, evidence?: Evidence[], about?: string[] }

function causeIn (seen: Seen, link: string, code: string): Cause {
  if (link === 'runner') return failed(seen)
  if (code === 'not_placed' || code === 'model_stopped') return removed(seen, code)
  return link === 'placement' ? waits(seen) : {}
}

/** The newest event of these kinds that is about the model or, for a timeout, about one of these nodes. */
function newest (
  { why: { modelId }, events }: Pick<Seen, 'why' | 'events'>, kinds: readonly string[],
  nodes: readonly string[] = []
): SeenEvent | undefined {
  return events.findLast((event) => {
    const [kind, of] = partsOf(event)
    return kinds.includes(kind) &&
      (kind === 'NodeTimedOut' ? nodes.includes(of['nodeId'] as string) : of['modelId'] === modelId)
  })
}

function failed (seen: Seen): Cause {
  const { state, instances } = seen
  const ids = new Set(instances.map((one) => bodyOf(one).instanceId))
  const failure = state.instanceFailures?.find(({ instanceId }) => ids.has(instanceId))
  const nodes = failure?.affectedNodeIds ?? []
  const last = newest(seen, KINDS.filter((kind) => kind !== 'InstanceCreated'), instances.flatMap(nodesOf))
  return {
    evidence: [
      ...eventEvidence(last),
      ...failure === undefined ? [] : [{ kind: 'error', reason: failure.errorCode } as const],
      ...nodes.map((nodeId) => nodeEvidence(state, nodeId))
    ],
    about: nodes.map((nodeId) => nameOf(state, nodeId))
  }
}

function removed (seen: Seen, code: string): Cause {
  const { why, events } = seen
  const gone = newest(seen, ['InstanceDeleted'])
  const created = newest(seen, ['InstanceCreated'])
  if (gone === undefined || (created?.idx ?? -1) > gone.idx) {
    return code === 'not_placed' && why.sums.length > 0
      ? { code: 'does_not_fit', message: why.sums.map(sentenceEnd).join('; '), remedy: wayOut(why) }
      : {}
  }
  const { instanceId } = partsOf(gone)[1]
  const idle = events.find((event) =>
    partsOf(event)[0] === 'InstanceUnloaded' && partsOf(event)[1]['instanceId'] === instanceId)
  const [unloaded, message] = idle === undefined
    ? ['model_stopped', `it was stopped at ${gone.at}`]
    : ['model_unloaded',
        `it was unloaded at ${idle.at}, unused for ${String(partsOf(idle)[1]['idleSeconds'])} s`]
  return { code: unloaded, message, evidence: eventEvidence(idle ?? gone) }
}

function waits (seen: Seen): Cause {
  const { why, state, events } = seen
  const { modelId, ways } = why
  const entry = Object.values(state.waitingInstances ?? {}).find((one) => one.modelId === modelId)
  if (entry === undefined) return {}
  const code = WAITS[entry.reason]
  const created = newest(seen, ['InstanceCreated'])
  const nodeIds = created === undefined ? [] : [partsOf(created)[1]['nodeIds']].flat().map(String)
  const since = events.filter(({ idx }) => idx > (created?.idx ?? 0))
  const lost = newest({ why, events: since }, ['NodeTimedOut'], nodeIds)
  const evidence = [lost, newest(seen, ['InstanceWaiting'])].flatMap(eventEvidence)
  if (lost === undefined) {
    return {
      ...code === undefined ? {} : { code }, evidence,
      ...code === 'does_not_fit' && ways.length > 0 ? { remedy: wayOut(why) } : {}
    }
  }
  const nodeId = partsOf(lost)[1]['nodeId'] as string
  const node = nameOf(state, nodeId)
  return {
    code: 'node_lost', about: [node, ...nodeIds.map((id) => nameOf(state, id))],
    evidence: [...evidence, nodeEvidence(state, nodeId)],
    message: `${node}, where it ran, was lost at ${lost.at}; no other node can take it: ` +
      sentenceEnd(entry.message),
    remedy: `Start ${node} again with \`svc up\` there; or see why it does not fit elsewhere: \`svc ` +
      `place ${modelId} --dry-run --explain\`.`
  }
}

const WAITS: Readonly<Partial<Record<string, string>>> = {
  node_lost: 'node_lost', insufficient_memory: 'does_not_fit', no_backend: 'backend_missing',
  engine_missing: 'engine_missing', store_unreachable: 'store_unreachable', no_quorum: 'no_quorum',
  no_master: 'no_master'
}

function answers ({ why: { modelId, links }, state, events, instances }: Seen): Fact {
  const own = instances.filter((one) => serves(state, one))
  const nodeIds = own.flatMap(nodesOf)
  const names = nodeIds.map((id) => nameOf(state, id))
  const ids = new Set(own.map((one) => bodyOf(one).instanceId))
  const ready = events.findLast((event) => {
    const { instanceId, status } = partsOf(event)[1]
    return ids.has(instanceId as string) && Object.hasOwn(status as object ?? {}, 'RunnerReady')
  })
  const where = names.length === 0 ? '' : ` on ${names.join(', ')}`
  const since = ready === undefined ? '' : `, ready since ${ready.at}`
  const { message = 'every check passed', remedy = null } = links.at(-1) ?? {}
  return fact('ok', 'answers', `${modelId} answers${where}${since}: ${sentenceEnd(message)}.`, {
    remedy, about: [modelId, ...names],
    evidence: [...eventEvidence(ready), ...nodeIds.map((id) => nodeEvidence(state, id))]
  })
}

const eventEvidence = (event: SeenEvent | undefined): Evidence[] => event === undefined
  ? []
  : [{ kind: 'event', idx: event.idx, at: event.at, name: partsOf(event)[0] }]

const nodeEvidence = (state: WhyState, nodeId: string): Evidence =>
  ({ kind: 'node', nodeId, name: nameOf(state, nodeId) })
