import {
  fact, isVerbError, modelInPath, quoted, createToolReads, withoutFullStop
} from '../../../kernel/cli/index.js'
import type { Evidence, Fact, ToolContext, ToolReads, Tool } from '../../../kernel/cli/index.js'
import { PAUSE_MS } from '../keeper/replicas.js'
import { AUTOPLACE, intentOf } from '../place/instance.js'
import type { StoredPolicy } from '../place/policies.js'
import { progressOf, SERVING } from '../progress/progress.js'
import { rowsOf } from '../cli/ps.js'
import { count, rankText } from '../cli/state.js'
import type { PsRow } from '../cli/ps.js'
import type { PreviewRow } from '../cli/sums.js'
import type { SeenState } from '../cli/state.js'
import type { ChainLink } from './model-chain.js'
import { worstFirst } from './request-words.js'

/** Limits on idle models that are named, and on those whose reason is requested; the rest are counted. */
const IDLE_MOST = 30
const ASKED_MOST = 6
/** Limit on the instances that are listed individually. */
const INSTANCES_MOST = 30

type State = SeenState & { policies?: Record<string, StoredPolicy & { stopped?: boolean }> }
interface ListedModel { id: string, root?: string, installed: boolean }

export default {
  async run (ctx) {
    const look = createToolReads(ctx)
    const state = await look.read<State>('The state of the cluster', '/state')
    if (state === null) return { facts: [], unknown: look.unknown }
    const rows = rowsOf(state)
    const told = rows.map((row) => factOf(row, state))
    const [policies, others] = await Promise.all([unmet(ctx, state, rows), idle(look, rows)])
    return {
      facts: [summary(rows), ...policies, ...worstFirst(told).slice(0, INSTANCES_MOST), ...others],
      unknown: look.unknown
    }
  }
} satisfies Tool

const STATE: Evidence = { kind: 'path', path: '/state' }
const ORDER = ['failed', 'waiting', 'ready', 'starting', 'draining'] as const
const WORDS: Readonly<Record<PsRow['state'], string>> = {
  ready: 'ready',
  starting: 'starting',
  failed: 'failed',
  waiting: 'waiting for a place',
  draining: 'being stopped'
}

function summary (rows: readonly PsRow[]): Fact {
  if (rows.length === 0) return fact('info', 'nothing_placed', 'No model is placed.', { evidence: [STATE] })
  const counts = ORDER.map((kind) => [rows.filter(({ state }) => state === kind).length, kind] as const)
    .filter(([n]) => n > 0).map(([n, kind]) => `${n} ${WORDS[kind]}`)
  return fact('info', 'running', `${count(rows.length, 'instance')}: ${counts.join(', ')}.`, {
    about: [...new Set(rows.map(({ modelId }) => quoted(modelId)))], evidence: [STATE]
  })
}

function factOf (row: PsRow, state: SeenState): Fact {
  const { instanceId, error, drainUntil } = row
  const model = quoted(row.modelId)
  const nodes = row.nodes.map(({ name }) => name)
  const more = {
    about: [model, instanceId, ...nodes],
    evidence: [STATE, ...row.nodes.map(({ nodeId, name }): Evidence => ({ kind: 'node', nodeId, name }))]
  }
  const on = nodes.length === 0 ? '' : ` on ${nodes.join(', ')}`
  const why = `Find the cause with \`svc why ${model}\`.`
  switch (row.state) {
    case 'ready': return fact('ok', 'model_ready', `${model} is ready${on}.`, more)
    case 'starting': return fact('info', 'model_starting',
      `${model} is starting${on}: ${stepsOf(state, instanceId)}.`, more)
    case 'failed': return fact('fail', 'runner_failed', `${model} has failed${on}: ${sentence(error)}.`,
      { ...more, remedy: `Restart it: \`svc stop ${model}\`, then \`svc place ${model}\`.` })
    case 'waiting': return fact('warn', 'model_waiting', `${model} waits for a place: ${sentence(error)}.`,
      { ...more, remedy: why })
    case 'draining': return fact('info', 'model_draining',
      `${model}${on} is being stopped, at the latest at ${drainUntil!}.`, more)
  }
}

const sentence = (text: string | null): string => withoutFullStop(text ?? 'the reason is unknown', 300)

function stepsOf (state: SeenState, instanceId: string): string {
  const progress = progressOf(state, instanceId)
  const ranks = progress.kind === 'starting' ? progress.ranks : []
  const texts = ranks.filter((rank) => !SERVING.has(rank.state)).map((rank) => sentence(rankText(rank)))
  return [...new Set(texts)].join(', ') || 'it has just begun'
}

/** Policies of unknown models, and those with fewer instances than `min` although nothing loads. */
async function unmet ({ look, nowMs }: ToolContext, state: State, rows: readonly PsRow[]): Promise<Fact[]> {
  const short = Object.entries(state.policies ?? {}).flatMap(([id, { replicas, stopped }]) => {
    const there = rows.filter((row) => row.modelId === id && row.state !== 'draining')
    const { min = 0, max = 1 } = replicas ?? {}
    return stopped === true || there.length >= Math.max(min, 1) ? [] : [{ id, min, max, there }]
  }).sort((a, b) => b.min - a.min).slice(0, ASKED_MOST)
  return (await Promise.all(short.map(async ({ id, min, max, there }): Promise<Fact[]> => {
    const [first] = there.flatMap(({ instanceId }) => state.instances[instanceId] ?? [])
    const { excluded, contextLength = '', slots = '' } = first === undefined ? AUTOPLACE : intentOf(first)
    const others = [...excluded, ...there.flatMap(({ nodes }) => nodes.map(({ nodeId }) => nodeId))].join()
    const query = new URLSearchParams({ model_id: id })
    const more = { context_length: contextLength, slots, excluded_nodes: others }
    for (const [key, value] of Object.entries(more)) {
      if (value !== '') query.set(key, String(value))
    }
    const path = `/instance/previews?${query.toString()}`
    const answer = await look<{ previews: PreviewRow[] }>(path)
    const model = quoted(id)
    const tell = (text: string, remedy: string): Fact[] =>
      [fact('warn', 'policy_unmet', `The policy of ${model} is not met: ${text}.`,
        { about: [model], evidence: [{ kind: 'path', path }], remedy })]
    if (isVerbError(answer)) return answer.api?.reason !== 'model_unknown' ? []
      : tell('no model has this name', `Download it: \`svc pull ${model}\`.`)
    const row = answer.previews.find(({ error }) => error === null) ?? answer.previews[0]
    const failure = state.instanceFailures.find(({ modelId, recordedAt = '' }) =>
      modelId === id && nowMs - Date.parse(recordedAt) < PAUSE_MS)?.errorMessage
    const why = row?.reason === 'exclusions_removed_all' ? 'no other live node can run it'
      : row?.reason === 'info_pending' ? undefined : row?.error ?? failure
    if (why === undefined || min === 0) return []
    return tell(`${there.length} of at least ${count(min, 'instance')} run: ${sentence(why)}`,
      why === failure ? `Find the cause with \`svc why ${model}\`.`
        : `Ask for fewer: \`svc policy ${model} --replicas ${there.length}-${max}\`; or add memory.`)
  }))).flat()
}

/** Facts about downloaded models without an instance; each stopped model has a separate fact. */
async function idle (look: ToolReads, rows: readonly PsRow[]): Promise<Fact[]> {
  const list = await look.read<{ data: ListedModel[] }>('The list of models', '/v1/models')
  const placed = new Set(rows.map(({ modelId }) => modelId))
  const ids = (list?.data ?? []).filter(({ id, root = id, installed }) => installed && root === id)
    .map(({ id }) => id).filter((id) => !placed.has(id))
  const stopped = (await Promise.all(ids.slice(0, ASKED_MOST).map((id) => stoppedFact(look, id)))).flat()
  const named = new Set(stopped.flatMap(({ about }) => about))
  const rest = ids.map((id) => quoted(id)).filter((id) => !named.has(id))
  return [
    ...stopped,
    ...rest.length === 0 ? [] : [fact('info', 'model_not_placed',
      `${count(rest.length, 'model')} on disk and not placed: ${rest.slice(0, IDLE_MOST).join(', ')}.`,
      { about: rest.slice(0, IDLE_MOST), evidence: [{ kind: 'path', path: '/v1/models' }] })]
  ]
}

async function stoppedFact ({ read }: ToolReads, id: string): Promise<Fact[]> {
  const path = `/models/${modelInPath(id)}/availability`
  const answer = await read<{ links: ChainLink[] }>(`Why ${quoted(id)} is not placed`, path)
  const link = answer?.links.find((one) => one.link === 'placement' && one.ok === false)
  const since = /^it was stopped at (\S+)$/.exec(link?.message ?? '')?.[1]
  if (since === undefined) return []
  const model = quoted(id)
  return [fact('info', 'model_stopped', `${model} does not run: an operator stopped it at ${since}.`, {
    about: [model], evidence: [{ kind: 'path', path }, { kind: 'time', at: since }],
    remedy: `Place it: \`svc place ${model}\`.`
  })]
}
