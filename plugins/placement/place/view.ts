import type { EngineDecl, NodeReport } from '../../../kernel/index.js'
import { needOf } from '../../runners/cards/memory-forecast.js'
import { runsOn } from '../../runners/cards/backends.js'
import type { ClusterView, EngineTraits, InstanceMemory, MemoryClaim, NodeFacts } from '../planner/types.js'
import { isGpu, memoryTraits } from '../planner/memory.js'
import { runnerKind } from '../progress/progress.js'
import {
  bodyOf, devicePartsOf, type Instance, type EndingInstance, type OfferedDriver
} from '../../runners/service.js'
import type { Facts } from '../facts.js'
import { cardOf, idOf, modelOf, ranksOf, type Rank } from './instance.js'

function traitsOf (decl: EngineDecl): EngineTraits {
  const {
    backends, multiNode = false, meta, tensor = false, unevenTensor = false, onlyTensor = false,
    manyDevices = false, program,
    overhead, fixedBytes, gpuBytes, batchTokens, vocabularyBytes, keepsPrompts, refuses, slots
  } = decl
  return {
    multiNode, tensor, unevenTensor, onlyTensor, manyDevices, backends, builds: program?.builds,
    program: program?.name, install: program?.install, slots, overhead, fixedBytes, gpuBytes,
    batchTokens, vocabularyBytes, keepsPrompts, refuses, library: program?.otherwise,
    meta: meta === 'LlamaRpc' ? meta : 'Ring'
  }
}

export interface ViewParts {
  engines: readonly { name: string, decl: EngineDecl }[]
  /** Bytes of the model on each node's disk, by node id. */
  staged: ReadonlyMap<string, number>
  /** Removed instances whose memory is not released yet, and their nodes. */
  releasing: readonly EndingInstance[]
  drained: ReadonlySet<string>
}

/** The cluster as the planner's input: live nodes that are not leaving. Pure. */
export function viewOf (parts: ViewParts, facts: Facts, modelId: string): ClusterView {
  const engines = Object.fromEntries(parts.engines.map(({ name, decl }) => [name, traitsOf(decl)]))
  const reports = facts.nodes.filter(({ view }) => view.live && view.leaving !== true)
  const nodes = reports.map((report) =>
    ({
      ...factsOf(report, engines, new Map([[modelId, parts.staged.get(report.view.nodeId) ?? 0]])),
      drained: parts.drained.has(report.view.installId)
    }))
  const there = new Map(nodes.map((node) => [node.nodeId, node]))
  const claimsOf = (instance: Instance, counts: (rank: Rank) => boolean): MemoryClaim[] =>
    ranksOf(instance).filter(counts).flatMap((rank) => claimOf(instance, rank, engines, there))
  const instances = Object.values(facts.instances)
  const kind = ({ runnerId }: Rank): string => runnerKind(facts, runnerId)
  const readings = runnerReadings(reports)
  const reserved = (one: Instance, counts: (rank: Rank) => boolean): MemoryClaim[] =>
    claimsOf(one, counts).map((claim) => ({ ...claim, instanceId: idOf(one) }))
  return {
    nodes,
    edges: reports.flatMap(({ view, links }) => links.map(({ nodeId: to, rttMs, bytesPerSecond }) =>
      ({ from: view.nodeId, to, rttMs, bytesPerSecond })))
      .filter(({ to }) => there.has(to)),
    engines,
    reservations: instances.flatMap((one) => [
      ...reserved(one, (rank) => !LOADED.has(kind(rank)) && !ENDED.has(kind(rank))),
      ...reserved(one, (rank) => LOADED.has(kind(rank)) && readings[rank.runnerId]?.vramCounted === false)
        .filter(({ backend }) => backend !== 'cpu')
    ]),
    releasing: parts.releasing.flatMap(({ instance, nodeIds }) =>
      claimsOf(instance, ({ nodeId }) => nodeIds.includes(nodeId))),
    instances: instances.map((one): InstanceMemory => {
      const { placement, drainUntil } = bodyOf(one)
      const ranks = ranksOf(one)
      return {
        instanceId: idOf(one), modelId: modelOf(one), leaving: drainUntil !== undefined,
        onDemand: placement?.origin === 'on_demand', memory: claimsOf(one, (rank) => LOADED.has(kind(rank))),
        // Without a time to live, an instance stays until somebody stops it.
        idleSeconds: drainUntil !== undefined
          ? ranks.some((rank) => kind(rank) === 'RunnerRunning') ? null : 0
          : placement?.ttlSeconds == null || ranks.some((rank) => ENDED.has(kind(rank))) ? undefined
            : readings[ranks[0]?.runnerId ?? '']?.idleSeconds ?? null
      }
    }).filter(({ memory, idleSeconds }) => memory.length > 0 || idleSeconds === null)
  }
}

function factsOf (
  { view: { nodeId, installId, name }, memory, system, resources }: NodeReport,
  engines: ClusterView['engines'], stagedBytes: ReadonlyMap<string, number>
): NodeFacts {
  return {
    nodeId, installId, name, stagedBytes,
    memory: memory === null
      ? null
      : { ramTotal: memory.ramTotal.inBytes, ramAvailable: memory.ramAvailable.inBytes },
    gpus: gpusOf(system?.accelerators ?? []),
    backends: resources === null ? null : backendsOf(resources, engines),
    lacks: enginesWith(resources?.['engines'], (driver) => driver === null),
    ...offersOf(resources?.['engines']),
    onLibrary: enginesWith(resources?.['engines'], (driver) => driver?.from === 'library'),
    participation: resources?.participation ?? null,
    silent: resources?.readings === false,
    lends: resources?.['rpcForEveryUser'] !== false,
    ramBudget: resources?.['modelMemoryBytes'] as number | undefined
  }
}

/** Limit in bytes below which a GPU's own memory means that it is integrated and uses RAM. */
const OWN_VRAM_BYTES = 2 ** 30

/**
 * The GPUs that a backend can use, which are those of the first GPU's vendor. A GPU with unknown usage counts
 * as full; if the usage of all GPUs is unknown, the model must fit into RAM.
 */
function gpusOf (all: NonNullable<NodeReport['system']>['accelerators']): NodeFacts['gpus'] {
  const gpus = all.filter(({ vendor }) => vendor === all[0]!.vendor)
    .map(({ vramTotalBytes: total, vramUsedBytes: used }) =>
      total === null || used === null || total < OWN_VRAM_BYTES ? null : { total, used })
  return gpus.every((gpu) => gpu === null) ? [] : gpus.map((gpu) => gpu ?? { total: 0, used: 0 })
}

/** What a plugin that finds an engine's programs tells of them (OfferedDriver). */
function offersOf (engines: unknown): Pick<NodeFacts, 'programs' | 'gangs' | 'processBytes'> {
  const told = Object.entries((engines ?? {}) as Record<string, Partial<OfferedDriver> | null>)
    .flatMap(([name, driver]) => driver?.programs === undefined ? [] : [[name, driver] as const])
  return {
    programs: Object.fromEntries(told.map(([name, { programs = [] }]) => [name, programs])),
    gangs: Object.fromEntries(told.map(([name, { gangs = {} }]) => [name, gangs])),
    processBytes: Object.fromEntries(told.flatMap(([name, { fixedBytes }]) =>
      fixedBytes === undefined ? [] : [[name, fixedBytes]]))
  }
}

/** Engines whose driver on the node satisfies `such`; the driver is null if its program is missing. */
function enginesWith (engines: unknown, such: (driver: { from?: string } | null) => boolean): string[] {
  return Object.entries((engines ?? {}) as Record<string, { from?: string } | null>)
    .flatMap(([name, driver]) => such(driver) ? [name] : [])
}

/** Usable backends by engine; release 0.1.0 reports one list for all engines. */
function backendsOf (
  { backends: offered, engineBackends }: NonNullable<NodeReport['resources']>, engines: ClusterView['engines']
): Record<string, readonly string[]> {
  const own = engineBackends as Readonly<Record<string, readonly string[]>> | undefined
  return Object.fromEntries(Object.entries(engines).map(([name, { backends }]) =>
    [name, backends.filter((backend) => (own?.[name] ?? offered).includes(backend))]))
}

/** The nodes' readings of their runners, by runner id: see `memoryView` in plugins/runners. */
function runnerReadings (
  reports: readonly NodeReport[]
): Record<string, { vramCounted?: boolean, idleSeconds?: number | null }> {
  return Object.assign({}, ...reports.map(({ system }) =>
    (system as { runnerMemory?: object } | null)?.runnerMemory)) as ReturnType<typeof runnerReadings>
}

/** States in which the model is in memory, so RAM readings include it; GPU readings may be older. */
const LOADED = new Set([
  'RunnerLoaded', 'RunnerWarmingUp', 'RunnerReady', 'RunnerRunning', 'RunnerShuttingDown'
])
/** States in which a runner uses no memory and cannot start again. */
const ENDED = new Set(['RunnerFailed', 'RunnerShutdown'])

/** Memory that one rank needs on its node; empty if the node is not in the view. */
function claimOf (
  instance: Instance, { nodeId, shard }: Rank, engines: ClusterView['engines'],
  nodes: ReadonlyMap<string, NodeFacts>
): MemoryClaim[] {
  const node = nodes.get(nodeId)
  if (node === undefined) return []
  const card = cardOf(shard)
  const { engine, contextTokenLimit, slots } = bodyOf(instance)
  const backend = node.backends?.[engine]?.find((name) => runsOn(card, name)) ?? 'cpu'
  return devicePartsOf(shard).map(({ gpu, part }) => ({
    nodeId,
    ...gpu === null ? { backend: 'cpu' } : { backend, gpu },
    bytes: needOf(card, memoryTraits(engines[engine] ?? {}, engine, node), {
      context: contextTokenLimit, slots, part, gpu: gpu !== null && isGpu(node, backend)
    }).neededBytes
  }))
}
