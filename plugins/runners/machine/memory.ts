import { showBytes } from '../../../kernel/cli/index.js'
import type { Caller, MemoryTraits, ModelCard } from '../../../kernel/index.js'
import { needOf, type Need, type DeviceTarget } from '../cards/memory-forecast.js'
import type { RunnerSet, LaunchOptions } from '../instances/runner-set.js'
import { LaunchError } from '../process/errors.js'
import { processTreeBytes } from '../process/proc.js'
import type { Machine } from './vitals.js'
import { devicePartsOf, type Assignment } from '../instances/shapes.js'
import type { ShardBody } from '../instances/sections.js'

const MIB = 1024 * 1024
const RUNNER_MEMORY_FLOOR_BYTES = 1024 * MIB
const MEMORY_CAP_FACTOR = 1.1

/**
 * Resident bytes above which a runner is killed: the planned memory plus a second copy of the cache, because
 * a step may rebuild it, plus 10%; at least 1 GiB. `configuredMb` (MiB) replaces this sum.
 */
export function memoryLimitBytes (
  card: ModelCard, traits: MemoryTraits, place: DeviceTarget = {}, configuredMb?: number
): number {
  if (configuredMb !== undefined) return configuredMb * MIB
  const { neededBytes, cacheBytes } = needOf(card, traits, place)
  return Math.ceil(Math.max(RUNNER_MEMORY_FLOOR_BYTES, (neededBytes + cacheBytes) * MEMORY_CAP_FACTOR))
}

export function shortage (
  { modelId, shareBytes, fixedBytes, gpu, free }:
  Pick<Need, 'shareBytes' | 'fixedBytes'> & { modelId: string, gpu: boolean, free: number }
): string | null {
  const needed = shareBytes + fixedBytes
  if (needed < free) return null
  return `${modelId} needs ${showBytes(needed)} of ${gpu ? 'GPU memory' : 'memory'} on this node ` +
    `(${showBytes(shareBytes)} of weights and ${showBytes(fixedBytes)} besides them), but only ` +
    `${showBytes(Math.max(0, free))} are free now: stop other programs or models there ` +
    `(\`svc stop MODEL\`), or place it on another node: \`svc place ${modelId} --exclude NODE\``
}

export interface FitParts {
  machine: Pick<Machine, 'freeRam' | 'freeVram'>
  shard (assignment: Assignment): ShardBody | null
  /** Memory that an engine needs besides the weights, computed with the planner's formula. */
  traits (engine: string): MemoryTraits
}

/**
 * Checks free memory just before a model loads, because other programs may have taken memory since planning.
 * Only the weights and the fixed part of the planner's sum must be free, so that a planned or forced
 * placement fits. Memory that cannot be read counts as sufficient. Throws LaunchError `insufficient_memory`.
 */
export function createFit (
  { machine, shard, traits }: FitParts
): (assignment: Assignment, options: Pick<LaunchOptions, 'spec'>) => Promise<void> {
  return async (assignment, { spec: { card, backend } }) => {
    const held = shard(assignment)
    const vram = backend === 'cpu' ? [] : await machine.freeVram().catch(() => [])
    for (const { gpu: number, part } of devicePartsOf(held)) {
      const gpu = backend !== 'cpu' && number !== null
      const free = gpu ? vram[number] ?? null : await machine.freeRam().catch(() => null)
      if (free === null) continue
      const need = needOf(card, traits(card.engine), { part, gpu })
      const problem = shortage({ ...need, modelId: card.modelId, gpu, free })
      if (problem !== null) throw new LaunchError('insufficient_memory', problem)
    }
  }
}

/**
 * Adds the memory of this node's runners to nodeSystem in /state. `vramCounted` is true if the last reading
 * of used GPU memory includes the runner. `idleSeconds`: see `InstanceShutdown`.
 */
export function memoryView (
  nodeId: string, fleet: Pick<RunnerSet, 'reports' | 'get'>, lastGpus: Machine['lastGpus'],
  idleSeconds: (runnerId: string) => number | null
): (caller: Caller, base?: unknown) => unknown {
  return (_caller, base) => {
    const nodes = (base ?? {}) as Record<string, object | null>
    const { atMs, vramByPid } = lastGpus()
    const runners = Object.fromEntries(fleet.reports().map(({ runnerId, pid, rssBytes, estimatedBytes }) => [
      runnerId, {
        residentBytes: rssBytes, estimatedBytes,
        vramBytes: pid === null || vramByPid.size === 0 ? null
          : processTreeBytes(pid, (id) => vramByPid.get(id) ?? 0) || null,
        vramCounted: (fleet.get(runnerId)?.loadedAt ?? Infinity) <= atMs,
        idleSeconds: idleSeconds(runnerId)
      }
    ]))
    return { ...nodes, [nodeId]: { ...nodes[nodeId], runnerMemory: runners } }
  }
}
