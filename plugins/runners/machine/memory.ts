import { showBytes } from '../../../kernel/cli/index.js'
import type { Caller, MemoryTraits, ModelCard } from '../../../kernel/index.js'
import { needOf } from '../cards/memory-forecast.js'
import type { Need, DeviceTarget } from '../cards/memory-forecast.js'
import type { RunnerSet, LaunchOptions } from '../instances/runner-set.js'
import { LaunchError } from '../process/errors.js'
import { processTreeBytes } from '../process/proc.js'
import type { Machine } from './vitals.js'
import { devicePartsOf } from '../instances/shapes.js'
import type { Assignment } from '../instances/shapes.js'
import type { ShardBody } from '../instances/sections.js'

const MIB = 1024 * 1024
/** Default memory cap of a runner: see `memoryLimitBytes`. */
const RUNNER_MEMORY_FLOOR_BYTES = 1024 * MIB
const MEMORY_CAP_FACTOR = 1.1

/**
 * Resident bytes above which a runner is ended: what placement counts, and the cache twice, as a step may
 * make it anew; plus a tenth, at least 1 GiB. `configuredMb` (MiB) replaces it.
 */
export function memoryLimitBytes (
  card: ModelCard, traits: MemoryTraits, place: DeviceTarget = {}, configuredMb?: number
): number {
  if (configuredMb !== undefined) return configuredMb * MIB
  const { neededBytes, cacheBytes } = needOf(card, traits, place)
  return Math.ceil(Math.max(RUNNER_MEMORY_FLOOR_BYTES, (neededBytes + cacheBytes) * MEMORY_CAP_FACTOR))
}

/** Why so many bytes of weights cannot be loaded where so many are free; null when they can. */
export function shortage (
  { modelId, shareBytes, fixedBytes, gpu, free }:
  Pick<Need, 'shareBytes' | 'fixedBytes'> & { modelId: string, gpu: boolean, free: number }
): string | null {
  const needed = shareBytes + fixedBytes
  if (needed < free) return null
  return `${modelId} needs ${showBytes(needed)} of ${gpu ? 'GPU memory' : 'memory'} on this node ` +
    `(${showBytes(shareBytes)} of weights and ${showBytes(fixedBytes)} beside them), but only ` +
    `${showBytes(Math.max(0, free))} are free now: end other programs or models there ` +
    `(\`svc stop MODEL\`), or place it elsewhere: \`svc place ${modelId} --exclude NODE\``
}

export interface FitParts {
  machine: Pick<Machine, 'freeRam' | 'freeVram'>
  /** The assignment's part of the model; null for all of it. */
  shard (assignment: Assignment): ShardBody | null
  /** Memory of an engine besides the weights, by the planner's formula. */
  traits (engine: string): MemoryTraits
}

/**
 * Checks the memory that is free just before a model is loaded, since other programs may have taken some
 * after it was planned. Of the planner's sum the weights and the fixed part must be free, so that what was
 * planned, or forced, fits. Throws LaunchError `insufficient_memory`. Memory that cannot be read counts as
 * enough.
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
 * What the kernel shows under nodeSystem, with the memory of this node's runners. `vramCounted`: the memory
 * in use on its GPUs, as it was last read, has that of the runner in it.
 */
export function memoryView (
  nodeId: string, fleet: Pick<RunnerSet, 'reports' | 'get'>, lastGpus: Machine['lastGpus']
): (caller: Caller, base?: unknown) => unknown {
  return (_caller, base) => {
    const nodes = (base ?? {}) as Record<string, object | null>
    const { atMs, vramByPid } = lastGpus()
    const runners = Object.fromEntries(fleet.reports().map(({ runnerId, pid, rssBytes, estimatedBytes }) => [
      runnerId, {
        residentBytes: rssBytes, estimatedBytes,
        vramBytes: pid === null || vramByPid.size === 0 ? null
          : processTreeBytes(pid, (id) => vramByPid.get(id) ?? 0) || null,
        vramCounted: (fleet.get(runnerId)?.loadedAt ?? Infinity) <= atMs
      }
    ]))
    return { ...nodes, [nodeId]: { ...nodes[nodeId], runnerMemory: runners } }
  }
}
