import type { Gpu } from '../../../kernel/index.js'
import { chooseBackend, declaredBackend, offersOf } from './backends.js'
import type { BinaryOverride } from './backends.js'
import type { conflicts } from '../declarations.js'
import type { Runtimes } from './runtimes.js'

/** Dedicated memory below which an AMD or Intel GPU is considered too small to serve models. */
const SERVING_VRAM_BYTES = 4 * 1024 ** 3

/** Vendors of GPUs that share the machine's memory and report no size. */
const SHARE_MEMORY: ReadonlySet<Gpu['vendor']> = new Set(['apple', 'intel'])

export type ConflictCode = keyof typeof conflicts

export interface EngineOffer {
  name: string
  backends: readonly string[]
  external?: boolean | undefined
  present?: boolean
  /** Name of the engine's program in `svc engine add`. */
  builds?: string | undefined
  /** The GPUs that the engine's program lists; null if it lists none or has not been queried. */
  devices?: readonly string[] | null
}

export interface Observation {
  gpus: readonly Gpu[]
  runtimes: Runtimes
  binaries: readonly BinaryOverride[]
  problems: readonly string[]
  declared: Readonly<Record<string, unknown>>
  engines: readonly EngineOffer[]
  /** Why the runners' sandbox is incomplete. */
  sandboxProblem?: string | null
}

const FIND: Readonly<Record<ConflictCode, (seen: Observation) => string[]>> = {
  gpu_serving_disabled: servingDisabled,
  gpu_detection_degraded: degraded,
  invalid_engine_binary: invalidBinaries,
  backend_override_conflict: unseenHardware,
  runners_unconfined: ({ sandboxProblem }) => sandboxProblem == null ? [] : [sandboxProblem]
}

/** All conflicts of kind `code` between configuration and machine, in one string; null if none. Pure. */
export function findConflict (code: ConflictCode, seen: Observation): string | null {
  const texts = FIND[code](seen)
  return texts.length === 0 ? null : texts.join('; ')
}

function invalidBinaries ({ binaries }: Observation): string[] {
  return binaries.filter(({ problem }) => problem !== null).map(({ variable, path, problem }) =>
    `${variable}: ${path === '' ? 'the path' : path} ${problem}`)
}

/**
 * Checks only engines that an operator set up: those with a declared backend or an installed program. Other
 * engines run on the CPU by default.
 */
function servingDisabled (seen: Observation): string[] {
  return seen.engines.flatMap((engine) => {
    const wanted = declaredBackend(seen.declared, engine.name)
    if (wanted === undefined && (engine.external !== true || engine.present === false)) return []
    const why = whyGpuUnused(engine, seen)
    return why === null ? [] : [why]
  })
}

/** Why an engine does not use a GPU in this machine; null if it uses one or could not use any. */
export function whyGpuUnused (
  engine: EngineOffer, { gpus, runtimes, declared }: Pick<Observation, 'gpus' | 'runtimes' | 'declared'>
): string | null {
  const gpu = gpus.find((one) => usable(one, runtimes).some((name) => engine.backends.includes(name)))
  if (gpu === undefined) return null
  const { name, present, builds, backends, devices } = engine
  const why = present === false
    ? `its program is missing${builds === undefined ? '' : `; \`svc engine add ${builds}\` installs it`}`
    : devices != null && offersOf(backends, devices).every((one) => one === 'cpu')
      ? 'its program lists no GPU (`svc engine ls`)'
      : cpuOnly(engine, declaredBackend(declared, name), runtimes)
  return why === null ? null : `${gpu.name} is visible, but engine ${name} runs on the CPU only: ${why}`
}

function cpuOnly (engine: EngineOffer, declared: string | undefined, runtimes: Runtimes): string | null {
  const { name, backends: offers, external, devices } = engine
  const { backend } = chooseBackend({ engine: name, offers, declared, runtimes, external, devices })
  const cuda = external === true || runtimes.cuda
  if (backend === 'cuda' && !cuda) return 'cuda is declared, but its libraries are not installed'
  if (backend !== 'cpu') return null
  if (declared === 'cpu') return 'cpu is declared'
  return cuda
    ? 'no GPU backend is declared'
    : 'no GPU backend is declared and the cuda libraries are not installed'
}

/** Backends that can run models on a GPU; none if the GPU has too little memory. */
function usable (gpu: Gpu, runtimes: Runtimes): string[] {
  const webgpu = runtimes.webgpu ? ['webgpu'] : []
  if (gpu.vendor === 'nvidia') return ['cuda', 'vulkan', ...webgpu]
  if (gpu.vendor === 'apple') return ['metal', ...webgpu]
  return (gpu.vramTotalBytes ?? 0) >= SERVING_VRAM_BYTES ? ['rocm', 'vulkan', ...webgpu] : []
}

function degraded ({ gpus, problems }: Observation): string[] {
  const vague = gpus.filter((gpu) => gpu.vramTotalBytes === null && !SHARE_MEMORY.has(gpu.vendor))
  if (vague.length === 0) return []
  const names = [...new Set(vague.map(({ name }) => name))].join(', ')
  const causes = problems.length === 0 ? '' : ` (${problems.join('; ')})`
  return [`the memory of ${names} is unknown${causes}`]
}

/** The vendor whose GPU a backend needs; an unlisted backend works with any GPU. */
const MAKER: Readonly<Record<string, [vendor: Gpu['vendor'], name: string]>> =
  { cuda: ['nvidia', 'NVIDIA '], rocm: ['amd', 'AMD '], metal: ['apple', 'Apple '] }

function unseenHardware ({ gpus, declared }: Observation): string[] {
  return Object.keys(declared).flatMap((engine) => {
    const key = `plugins.runners.backends.${engine}`
    const backend = declaredBackend(declared, engine)
    if (backend === undefined || backend === 'cpu') return []
    const [maker, name] = MAKER[backend] ?? []
    const seen = gpus.some(({ vendor }) => maker === undefined || vendor === maker)
    return seen ? [] : [`${key} is ${backend}, but no ${name ?? ''}GPU is visible`]
  })
}
