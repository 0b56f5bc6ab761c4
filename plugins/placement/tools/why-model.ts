import { delay, systemClock } from '../../../kernel/index.js'
import {
  fact, isVerbError, lookedAt, modelInPath, quoted, reading, unread, unstopped
} from '../../../kernel/cli/index.js'
import type {
  Evidence, Fact, Finding, Reading, Tool, ToolContext, VerbError
} from '../../../kernel/cli/index.js'
import { nameOf } from '../cli/state.js'
import { modelOf, nodesOf } from '../place/instance.js'
import { serves } from '../progress/progress.js'
import { bodyOf } from '../../runners/service.js'
import type { Instance } from '../../runners/service.js'
import { storeRemedy } from '../../staging/service.js'
import { whyModel } from './model-chain.js'
import type { Link, ModelWhy } from './model-chain.js'
import { partsOf } from './request-facts.js'
import type { SeenEvent, WhyState } from './request-facts.js'

/** Whether a model answers, else the cause. */
export default {
  run: async (ctx, { model }) => await explain(ctx, model)
} satisfies Tool<{ model: string }>

/** Longest wait for an answer of the model itself, ms; a call has 5 s for everything. */
const ANSWER_MS = 3500

/** What happened to a model, by its events. */
const KINDS = [
  'InstanceCreated', 'InstanceDeleted', 'InstanceUnloaded', 'InstanceWaiting', 'InstanceFailureRecorded',
  'RunnerFailed', 'DownloadFailed', 'NodeTimedOut'
]

async function explain (ctx: ToolContext, modelId: string): Promise<Finding> {
  const why = await whyModel(patient(ctx.look), modelId)
  if (isVerbError(why)) return refused(why, modelId)
  const looked = reading(ctx)
  const { read, unknown } = looked
  const kinds = why.broken === undefined ? ['RunnerStatusUpdated'] : KINDS
  const [state, log] = await Promise.all([
    read<WhyState>('The state of the cluster', '/state'),
    read<{ events: SeenEvent[] }>('The events', `/events?kinds=${kinds.join(',')}&limit=1000`)
  ])
  if (state === null) return { facts: [], unknown }
  const seen = { why, state, events: log?.events ?? [] }
  if (why.broken === undefined) return { facts: [answers(seen)], unknown }
  const code = codeOf(why.broken)
  const [off, brought] = await Promise.all([
    CODES_OF_PLUGINS.has(code) ? pluginsOff(looked) : [],
    CODES_OF_FILES.has(code) ? files(ctx, modelId) : []
  ])
  const facts = factsOf(seen, why.broken, off)
  // What became of bringing it is why it is not there.
  return { facts: [...brought, ...facts].sort((a, b) => RANKS[a.level] - RANKS[b.level]), unknown }
}

const RANKS: Readonly<Record<Fact['level'], number>> = { fail: 0, warn: 1, info: 2, ok: 3 }

/** A request that is not answered in time is one that the model does not answer. */
function patient (look: ToolContext['look']): ToolContext['look'] {
  return async <T>(path: string) => {
    if (!path.startsWith('/readyz')) return await look<T>(path)
    const over = new AbortController()
    const message = `a small request was not answered within ${ANSWER_MS / 1000} s`
    const late = delay(systemClock, ANSWER_MS, over.signal).then(() =>
      lookedAt<T>(503, JSON.stringify({ error: { code: 503, reason: 'not_ready', message } })))
    try {
      return await Promise.race([look<T>(path), late])
    } finally {
      late.catch(() => {})
      over.abort()
    }
  }
}

/** The node has no such route where the plugin that knows of models is off. */
function refused (error: VerbError, modelId: string): Finding {
  const plugin = error.api?.details?.['plugin']
  if (error.api?.reason !== 'plugin_disabled' || typeof plugin !== 'string') {
    return { facts: [], unknown: [unread(`What keeps ${modelId} from answering`, error)] }
  }
  return { facts: [offFact(modelId, plugin)], unknown: [] }
}

const offFact = (modelId: string, plugin: string, level: Fact['level'] = 'fail'): Fact =>
  fact(level, 'plugin_off', `The plugin ${plugin} is off at this node, so ${modelId} may not run here.`, {
    about: [modelId, plugin], evidence: [{ kind: 'path', path: '/v1/plugins' }],
    remedy: `Switch it on: \`svc plugin enable ${plugin}\`, then restart the node.`
  })

/** Causes that a plugin which is off may explain. */
const CODES_OF_PLUGINS: ReadonlySet<string> = new Set(['plugin_off', 'model_unknown'])

async function pluginsOff ({ read }: Reading): Promise<string[]> {
  const list = await read<{ plugins: { name: string, enabled: boolean }[] }>(
    'Which plugins are off', '/v1/plugins')
  return (list?.plugins ?? []).filter(({ enabled }) => !enabled).map(({ name }) => quoted(name))
}

/** Causes that a download explains, or a store that is away. */
const CODES_OF_FILES: ReadonlySet<string> = new Set(['model_unknown', 'files_missing', 'files_coming'])

/** What became of bringing the model, by the tool that knows of downloads, and whether there is a store. */
async function files (ctx: ToolContext, modelId: string): Promise<Fact[]> {
  const { manifests } = await ctx.declared()
  const declared = manifests.flatMap(({ tools = {} }) => tools['downloads'] ?? [])[0]
  const tool = (await declared?.load())?.default as Tool<{ model: string }> | undefined
  const [store, found] = await Promise.all([ctx.look('/store/health'), tool?.run(ctx, { model: modelId })])
  return [...storeFact(store, modelId), ...(found?.facts ?? []).filter(({ code }) => code !== 'no_downloads')]
}

function storeFact (store: unknown, modelId: string): Fact[] {
  const reason = isVerbError(store) ? store.api?.reason : undefined
  const more = { about: [modelId], evidence: [{ kind: 'path', path: '/store/health' }] } as const
  if (reason === 'store_unreachable') {
    return [fact('fail', reason, `${modelId} may be in the store, which cannot be reached.`,
      { ...more, remedy: storeRemedy(reason) })]
  }
  return reason !== 'store_not_configured' ? [] : [fact('warn', reason,
    'No node of this cluster has a store, so no model can be staged from one.',
    { ...more, remedy: storeRemedy(reason) })]
}

/** What a chain that breaks there is called where an older node gives no code. */
const BY_LINK: Readonly<Record<string, string>> = {
  card: 'model_unknown', copy: 'files_missing', backend: 'backend_missing', placement: 'not_placed',
  runner: 'loading', request: 'not_answering'
}
const codeOf = ({ code, link }: Link): string => code ?? BY_LINK[link] ?? 'unavailable'

/** What was looked at. */
export interface ModelSeen {
  why: ModelWhy
  state: WhyState
  /** Oldest first. */
  events: readonly SeenEvent[]
}

/** What a cause is found to be: as a rule what the broken link says. */
interface Cause {
  code: string
  message: string
  remedy: string | null
  evidence: Evidence[]
  about: string[]
}

/** The broken link by its cause, then what stands behind that. Pure. */
export function factsOf (seen: ModelSeen, broken: Link, off: readonly string[]): Fact[] {
  const { why: { modelId, sums }, state } = seen
  const cause = causeIn(seen, broken)
  const nodes = instancesIn(seen).flatMap(nodesOf).map((id) => nameOf(state, id))
  const level = PASSING.has(cause.code) ? 'warn' : 'fail'
  const main = fact(level, cause.code, `${modelId} does not answer: ${bare(cause.message)}.`, {
    about: [...new Set([modelId, ...cause.about, ...nodes])],
    evidence: [...cause.evidence, { kind: 'path', path: `/models/${modelInPath(modelId)}/availability` }],
    remedy: cause.remedy
  })
  // What ships with svc is unknown only where its plugin is off.
  const ships = modelId.startsWith('svc/')
  const plugins = off.map((plugin) => offFact(modelId, plugin, ships ? 'fail' : 'info'))
  const more = sums.length > 0 && cause.code !== 'does_not_fit' ? [tooLarge(seen)] : []
  return ships ? [...plugins, main, ...more] : [main, ...plugins, ...more]
}

/** These end by themselves. */
const PASSING: ReadonlySet<string> = new Set(['loading', 'files_coming', 'session_new', 'draining'])

function tooLarge ({ why }: ModelSeen): Fact {
  const { modelId, sums } = why
  return fact('warn', 'does_not_fit', `${modelId}: ${sums.map(bare).join('; ')}.`,
    { about: [modelId], remedy: wayOut(why) })
}

/** The first way to make it fit. */
export function wayOut ({ modelId, ways }: Pick<ModelWhy, 'modelId' | 'ways'>): string {
  const way = ways.find(({ command }) => command !== null) ?? ways[0]
  const change = way === undefined ? 'Free memory, or add a node'
    : way.command === null ? `It would fit after this: ${way.text}` : `Make it fit: \`${way.command}\``
  return `${change}; the sums: \`svc place ${modelId} --dry-run --explain\`.`
}

function causeIn (seen: ModelSeen, broken: Link): Cause {
  const code = codeOf(broken)
  const told: Cause = { code, message: broken.message, remedy: broken.remedy, evidence: [], about: [] }
  const found = broken.link === 'runner' ? failed(seen)
    : code === 'not_placed' || code === 'model_stopped' ? removed(seen, code)
      : broken.link === 'placement' ? waits(seen) : {}
  return { ...told, ...found }
}

/** Why a runner failed, or what it waits for: the newest failure of an instance that is there. */
function failed ({ why: { modelId }, state, events }: ModelSeen): Partial<Cause> {
  const own = instancesIn({ why: { modelId }, state })
  const ids = new Set(own.map((one) => bodyOf(one).instanceId))
  const nodes = new Set(own.flatMap(nodesOf))
  const failure = state.instanceFailures?.find(({ instanceId }) => ids.has(instanceId))
  const last = events.findLast((event) => {
    const [kind, payload] = partsOf(event)
    return kind === 'NodeTimedOut'
      ? nodes.has(payload['nodeId'] as string)
      : kind !== 'InstanceCreated' && payload['modelId'] === modelId
  })
  return {
    evidence: [
      ...last === undefined ? [] : [eventEvidence(last)],
      ...failure === undefined ? [] : [{ kind: 'error', reason: failure.errorCode } as const],
      ...(failure?.affectedNodeIds ?? []).map((nodeId) => nodeEvidence(state, nodeId))
    ],
    about: (failure?.affectedNodeIds ?? []).map((nodeId) => nameOf(state, nodeId))
  }
}

/** Whether somebody stopped it, or nobody used it for as long as it was to stay. */
function removed ({ why, events }: ModelSeen, code: string): Partial<Cause> {
  const { modelId, sums } = why
  const own = events.filter((event) => partsOf(event)[1]['modelId'] === modelId)
  const gone = own.findLast((event) => partsOf(event)[0] === 'InstanceDeleted')
  const created = own.findLast((event) => partsOf(event)[0] === 'InstanceCreated')
  if (gone === undefined || (created?.idx ?? -1) > gone.idx) {
    return code === 'not_placed' && sums.length > 0
      ? { code: 'does_not_fit', message: sums.map(bare).join('; '), remedy: wayOut(why) }
      : {}
  }
  const { instanceId } = partsOf(gone)[1]
  const idle = own.find((event) =>
    partsOf(event)[0] === 'InstanceUnloaded' && partsOf(event)[1]['instanceId'] === instanceId)
  if (idle !== undefined) {
    const message = `it was unloaded at ${idle.at}, unused for ${String(partsOf(idle)[1]['idleSeconds'])} s`
    return { code: 'model_unloaded', message, evidence: [eventEvidence(idle)] }
  }
  return { code: 'model_stopped', message: `it was stopped at ${gone.at}`, evidence: [eventEvidence(gone)] }
}

/** Why what waits for a place has none: its node was lost, or there is no room for it. */
function waits ({ why, state, events }: ModelSeen): Partial<Cause> {
  const { modelId, ways } = why
  const entry = Object.values(state.waitingInstances ?? {}).find((one) => one.modelId === modelId)
  if (entry === undefined) return {}
  const code = WAITS[entry.reason]
  const created = events.findLast((event) =>
    partsOf(event)[0] === 'InstanceCreated' && partsOf(event)[1]['modelId'] === modelId)
  const nodeIds = created === undefined ? [] : [partsOf(created)[1]['nodeIds']].flat().map(String)
  const lost = events.findLast((event) => {
    const [kind, { nodeId }] = partsOf(event)
    return kind === 'NodeTimedOut' && event.idx > (created?.idx ?? 0) && nodeIds.includes(nodeId as string)
  })
  const waiting = events.findLast((event) =>
    partsOf(event)[0] === 'InstanceWaiting' && partsOf(event)[1]['modelId'] === modelId)
  const evidence = [lost, waiting].flatMap((event) => event === undefined ? [] : [eventEvidence(event)])
  const about = nodeIds.map((id) => nameOf(state, id))
  if (lost === undefined) {
    return {
      ...code === undefined ? {} : { code }, evidence,
      ...code === 'does_not_fit' && ways.length > 0 ? { remedy: wayOut(why) } : {}
    }
  }
  const nodeId = partsOf(lost)[1]['nodeId'] as string
  const node = nameOf(state, nodeId)
  return {
    code: 'node_lost', about: [node, ...about], evidence: [...evidence, nodeEvidence(state, nodeId)],
    message: `${node}, where it ran, was lost at ${lost.at}; no other node can take it: ` +
      bare(entry.message),
    remedy: `Start ${node} again with \`svc up\` there; or see what keeps it from the others: ` +
      `\`svc place ${modelId} --dry-run --explain\`.`
  }
}

/** The reasons for which something waits, as causes. */
const WAITS: Readonly<Partial<Record<string, string>>> = {
  node_lost: 'node_lost', insufficient_memory: 'does_not_fit', no_backend: 'backend_missing',
  engine_missing: 'engine_missing', store_unreachable: 'store_unreachable', no_quorum: 'no_quorum',
  no_master: 'no_master'
}

/** Where it answers, and since when. */
function answers ({ why: { modelId, links }, state, events }: ModelSeen): Fact {
  const own = instancesIn({ why: { modelId }, state }).filter((one) => serves(state, one))
  const nodeIds = own.flatMap(nodesOf)
  const ids = new Set(own.map((one) => bodyOf(one).instanceId))
  const ready = events.findLast((event) => {
    const { instanceId, status } = partsOf(event)[1]
    return ids.has(instanceId as string) && Object.hasOwn(status as object ?? {}, 'RunnerReady')
  })
  const where = nodeIds.length === 0 ? '' : ` on ${nodeIds.map((id) => nameOf(state, id)).join(', ')}`
  const since = ready === undefined ? '' : `, ready since ${ready.at}`
  const { message = 'every link holds', remedy = null } = links.at(-1) ?? {}
  return fact('ok', 'answers', `${modelId} answers${where}${since}: ${bare(message)}.`, {
    remedy,
    about: [modelId, ...nodeIds.map((id) => nameOf(state, id))],
    evidence: [
      ...ready === undefined ? [] : [eventEvidence(ready)], ...nodeIds.map((id) => nodeEvidence(state, id))
    ]
  })
}

const instancesIn = (
  { why, state }: { why: Pick<ModelWhy, 'modelId'>, state: WhyState }
): Instance[] => Object.values(state.instances).filter((one) => modelOf(one) === why.modelId)

const eventEvidence = (event: SeenEvent): Evidence =>
  ({ kind: 'event', idx: event.idx, at: event.at, name: partsOf(event)[0] })

const nodeEvidence = (state: WhyState, nodeId: string): Evidence =>
  ({ kind: 'node', nodeId, name: nameOf(state, nodeId) })

/** Text of others as the end of a sentence. */
const bare = (text: string): string => unstopped(text, 500)
