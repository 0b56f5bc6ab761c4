import type { Gpu } from '../../../kernel/index.js'
import { chooseBackend, declaredBackend, runtimesFor } from './backends.js'
import type { BinaryOverride } from './backends.js'
import type { conflicts } from '../declarations.js'
import type { Runtimes } from './runtimes.js'

/** Dedicated memory from which an AMD or Intel GPU is worth serving from. */
const SERVING_VRAM_BYTES = 4 * 1024 ** 3

/** Makers whose GPUs share the machine's memory, so that they have no size of their own. */
const SHARE_MEMORY: ReadonlySet<Gpu['vendor']> = new Set(['apple', 'intel'])

export type ConflictCode = keyof typeof conflicts

/** A conflict with what was seen against what was declared. */
export interface Conflict {
  code: ConflictCode
  observed: string
}

/** What was found. */
export interface Observation {
  gpus: readonly Gpu[]
  runtimes: Runtimes
  binaries: BinaryOverride[]
  /** What could not be asked. */
  problems: readonly string[]
}

/** The part of an engine's declaration that matters here. */
export interface EngineOffer {
  name: string
  backends: readonly string[]
  /** It drives an external program. */
  external?: boolean | undefined
}

type Declared = Readonly<Record<string, unknown>>

/** Every conflict between machine and configuration. Pure. */
export function detect (
  observation: Observation,
  declared: Declared,
  engines: readonly EngineOffer[]
): Conflict[] {
  return [
    ...engines.flatMap((engine) => servingDisabled(observation, declared, engine)),
    ...degraded(observation),
    ...invalidBinaries(observation.binaries),
    ...Object.keys(declared).flatMap((engine) =>
      unseenHardware(observation.gpus, engine, declaredBackend(declared, engine))
    )
  ]
}

/** One text per code, as a conflict is raised once; null for a code with nothing to say. */
export function byCode (found: readonly Conflict[], code: ConflictCode): string | null {
  const texts = found.filter((conflict) => conflict.code === code).map(({ observed }) => observed)
  return texts.length === 0 ? null : texts.join('; ')
}

/** Overrides that cannot be used. */
export function invalidBinaries (binaries: readonly BinaryOverride[]): Conflict[] {
  return binaries
    .filter(({ problem }) => problem !== null)
    .map(({ variable, path, problem }) => ({
      code: 'invalid_engine_binary',
      observed: `${variable}: ${path === '' ? 'the path' : path} ${problem}`
    }))
}

function servingDisabled (observation: Observation, declared: Declared, engine: EngineOffer): Conflict[] {
  const { gpus } = observation
  const runtimes = runtimesFor(engine, observation.runtimes)
  const wanted = declaredBackend(declared, engine.name)
  const gpu = gpus.find((candidate) =>
    usable(candidate, runtimes).some((backend) => engine.backends.includes(backend))
  )
  if (gpu === undefined) return []
  const choice = chooseBackend({ engine: engine.name, offers: engine.backends, declared: wanted, runtimes })
  const why = cpuOnly(choice.backend, wanted, runtimes)
  if (why === null) return []
  return [
    {
      code: 'gpu_serving_disabled',
      observed: `${gpu.name} is visible, but engine ${engine.name} runs on the CPU only: ${why}`
    }
  ]
}

function cpuOnly (backend: string | null, wanted: string | undefined, runtimes: Runtimes): string | null {
  if (backend === 'cuda' && !runtimes.cuda) return 'cuda is declared, but its libraries are not installed'
  if (backend !== 'cpu') return null
  if (wanted === 'cpu') return 'cpu is declared'
  return runtimes.cuda
    ? 'no GPU backend is declared'
    : 'no GPU backend is declared and the cuda libraries are not installed'
}

/** Backends a GPU could serve with; none when it is too small to be worth it. */
function usable (gpu: Gpu, runtimes: Runtimes): string[] {
  const webgpu = runtimes.webgpu ? ['webgpu'] : []
  if (gpu.vendor === 'nvidia') return ['cuda', ...webgpu]
  if (gpu.vendor === 'apple') return webgpu
  return (gpu.vramTotalBytes ?? 0) >= SERVING_VRAM_BYTES ? webgpu : []
}

function degraded ({ gpus, problems }: Observation): Conflict[] {
  const vague = gpus.filter((gpu) => gpu.vramTotalBytes === null && !SHARE_MEMORY.has(gpu.vendor))
  if (vague.length === 0) return []
  const names = [...new Set(vague.map(({ name }) => name))].join(', ')
  const causes = problems.length === 0 ? '' : ` (${problems.join('; ')})`
  return [{ code: 'gpu_detection_degraded', observed: `the memory of ${names} is unknown${causes}` }]
}

function unseenHardware (gpus: readonly Gpu[], engine: string, backend: string | undefined): Conflict[] {
  const key = `plugins.runners.backends.${engine}`
  if (backend === 'cuda' && !gpus.some(({ vendor }) => vendor === 'nvidia')) {
    return [{ code: 'backend_override_conflict', observed: `${key} is cuda, but no NVIDIA GPU is visible` }]
  }
  if (backend === 'webgpu' && gpus.length === 0) {
    return [{ code: 'backend_override_conflict', observed: `${key} is webgpu, but no GPU is visible` }]
  }
  return []
}
