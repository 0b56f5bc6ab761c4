import { progressOf, runnerKind, SERVING } from '../progress/progress.js'
import { ranksOf, type Rank } from '../place/instance.js'
import { plain, showBytes, type Verb, type VerbContext } from '../../../kernel/cli/index.js'
import type { WaitingInstance } from '../waitlist.js'
import { bodyOf, partOf, type Instance } from '../../runners/service.js'
import { nameOf, queueOf, rankText, type RunnerMemory, type SeenState } from './state.js'

export interface PsRow {
  instanceId: string
  modelId: string
  state: 'ready' | 'starting' | 'failed' | 'draining' | 'waiting'
  error: string | null
  /** The id of the instance that this one replaces, or under which it waited for a node; else null. */
  replaces: string | null
  /** Seconds without requests after which the instance is unloaded; null if it stays loaded. */
  ttlSeconds: number | null
  /** ISO 8601 deadline of the drain; null unless the instance is draining. */
  drainUntil: string | null
  /** Context length in tokens; null if the model has none, or while the instance waits to be placed. */
  contextLength: number | null
  /** Limit on concurrent requests; null if the engine has no slots. */
  slots: number | null
  running: number
  waiting: number
  memoryBytes: number
  /** Bytes of RAM and GPU memory measured for the instance's runners, and the estimate; null if unknown. */
  residentBytes: number | null
  vramBytes: number | null
  estimatedBytes: number | null
  nodes: { nodeId: string, name: string, runnerId: string, state: string }[]
}

export default {
  async run ({ client, out, err }) {
    const state = await client.json<SeenState>('/state')
    const instances = rowsOf(state)
    if (out.json) out.value({ instances })
    else if (instances.length === 0) err.line('no models are placed; place one with `svc place org/name`')
    else table(out, state, instances)
  }
} satisfies Verb

function table (out: VerbContext['out'], state: SeenState, rows: readonly PsRow[]): void {
  const columns: [string, (row: PsRow) => string, boolean?][] = [
    ['INSTANCE', ({ instanceId }) => instanceId],
    ['MODEL', ({ modelId }) => modelId],
    ['NODES', ({ nodes }) => nodes.map(({ name }) => name).join(',') || '-'],
    ['STATE', (row) => plain(stateOf(state, row))],
    ['MEM', ({ residentBytes }) => residentBytes === null ? '-' : showBytes(residentBytes)],
    ['VRAM', ({ vramBytes }) => vramBytes === null ? '-' : showBytes(vramBytes),
      rows.some(({ vramBytes }) => vramBytes !== null)],
    ['COUNTED', ({ estimatedBytes }) => estimatedBytes === null ? '-' : showBytes(estimatedBytes)],
    ['CONTEXT', ({ contextLength }) => contextLength === null ? '-' : String(contextLength),
      rows.some(({ contextLength }) => contextLength !== null)],
    ['SLOTS', slotsOf, rows.some(({ slots }) => slots !== null)],
    ['TTL', ({ ttlSeconds }) => ttlSeconds === null ? '-' : `${ttlSeconds} s`,
      rows.some(({ ttlSeconds }) => ttlSeconds !== null)],
    // Not only the id of a replaced instance: a first placement may have waited under another id.
    ['EARLIER ID', ({ replaces }) => replaces ?? '-', rows.some(({ replaces }) => replaces !== null)]
  ]
  const shown = columns.filter(([, , wanted = true]) => wanted)
  out.table(shown.map(([title]) => title), rows.map((row) => shown.map(([, cell]) => cell(row))))
}

const slotsOf = ({ slots, running, waiting }: PsRow): string =>
  slots === null ? '-' : `${running}/${slots}${waiting === 0 ? '' : `, ${waiting} wait`}`

export function rowsOf (state: SeenState): PsRow[] {
  const waiting = Object.values(state.waitingInstances ?? {})
    // Omit the entry that waits to replace an instance while that instance still exists.
    .filter(({ instanceId }) => !Object.hasOwn(state.instances, instanceId))
  return [
    ...Object.entries(state.instances).map(([id, instance]) => rowOf(state, id, instance)),
    ...waiting.map(waitingRow)
  ]
    .sort((a, b) => a.modelId < b.modelId ? -1 : a.modelId > b.modelId ? 1 : 0)
}

function waitingRow ({ instanceId, modelId, message, intent, replaces }: WaitingInstance): PsRow {
  return {
    instanceId, modelId, state: 'waiting', error: message, replaces, ttlSeconds: intent.ttlSeconds,
    drainUntil: null, contextLength: null, slots: null, running: 0, waiting: 0, memoryBytes: 0,
    residentBytes: null, vramBytes: null, estimatedBytes: null, nodes: []
  }
}

function rowOf (state: SeenState, instanceId: string, instance: Instance): PsRow {
  const progress = progressOf(state, instanceId)
  const ranks = ranksOf(instance)
  const starting = new Map(progress.kind === 'starting'
    ? progress.ranks.map(({ nodeId, state }) => [nodeId, state])
    : [])
  const { shardAssignments: { modelId }, contextTokenLimit, slots, placement, drainUntil } = bodyOf(instance)
  return {
    instanceId,
    modelId,
    // `gone` is impossible here, because the instance exists.
    state: progress.kind as PsRow['state'],
    error: progress.kind === 'failed' ? progress.message : null,
    replaces: placement?.replaces ?? null,
    ttlSeconds: placement?.ttlSeconds ?? null,
    drainUntil: drainUntil ?? null,
    contextLength: contextTokenLimit > 0 ? contextTokenLimit : null,
    slots: slots ?? null,
    ...queueOf(state, (task) => task.instanceId === instanceId),
    memoryBytes: ranks.reduce((sum, { shard }) => {
      const { of, parts } = partOf(shard)
      return sum + Math.ceil(shard.modelCard.storageSize.inBytes * of / parts)
    }, 0),
    residentBytes: memoryOf(state, ranks, 'residentBytes'),
    vramBytes: memoryOf(state, ranks, 'vramBytes'),
    estimatedBytes: memoryOf(state, ranks, 'estimatedBytes'),
    nodes: ranks.map(({ nodeId, runnerId }) => ({
      nodeId, name: nameOf(state, nodeId), runnerId,
      state: starting.get(nodeId) ?? runnerKind(state, runnerId)
    }))
  }
}

function memoryOf (state: SeenState, ranks: readonly Rank[], key: keyof RunnerMemory): number | null {
  const told = ranks.map(({ nodeId, runnerId }) =>
    state.nodeSystem?.[nodeId]?.runnerMemory?.[runnerId]?.[key] ?? null).filter((bytes) => bytes !== null)
  return told.length === 0 ? null : told.reduce((sum, bytes) => sum + bytes, 0)
}

function stateOf (state: SeenState, { instanceId, state: kind, error, drainUntil, nodes }: PsRow): string {
  if (kind === 'failed') {
    const next = nodes.flatMap(({ runnerId }) =>
      (state.runners[runnerId]?.['RunnerFailed'] as { nextTryAt?: string } | undefined)?.nextTryAt ?? [])
    return [`failed: ${error!}`, ...next.slice(0, 1).map((at) => `next try at ${at}`)].join('; ')
  }
  if (kind === 'waiting') return `WAITING: ${error!}`
  if (kind === 'draining') return `draining until ${drainUntil!}`
  const progress = progressOf(state, instanceId)
  if (progress.kind !== 'starting') return kind
  return [...new Set(progress.ranks.filter((rank) => !SERVING.has(rank.state)).map(rankText))].join(', ')
}
