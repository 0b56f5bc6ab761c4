import { realpath, stat } from 'node:fs/promises'
import { isAbsolute } from 'node:path'
import type { ProgramDecl, Gpu } from '../../../kernel/index.js'
import { listsBackend } from './programs.js'
import type { Runtimes } from './runtimes.js'
import type { conflicts } from '../declarations.js'

export type BackendChoice =
  { backend: string, declared: boolean } |
  { backend: null, problem: string, remedy: string, code?: 'engine_missing' }

interface BackendQuery extends Drives {
  engine: string
  offers: readonly string[]
  why?: string | undefined
  declared: string | undefined
  runtimes: Runtimes
}

/**
 * Chooses the backend for an engine: a declared one, even if it is not detected; otherwise the best detected
 * one, or the CPU. webgpu must be declared, because only a trial shows whether the driver works.
 */
export function chooseBackend (query: BackendQuery): BackendChoice {
  const { engine, offers, why, declared, runtimes } = query
  const key = `plugins.runners.backends.${engine}`
  if (declared !== undefined) {
    if (offers.includes(declared)) return { backend: declared, declared: true }
    return {
      backend: null,
      problem: `${key} is ${declared}, but engine ${engine} supports ${offers.join(', ')}` +
        (why === undefined ? '' : `: ${why}`),
      remedy: `Set ${key} to one of ${offers.join(', ')} in svc.yaml and restart.`
    }
  }
  const found = offers.find((name) => isFound(name, query, runtimes))
  if (found !== undefined) return { backend: found, declared: false }
  return {
    backend: null,
    problem: `engine ${engine} supports ${offers.join(', ')}, none of which is available here`,
    remedy: `Set ${key} to one of ${offers.join(', ')} in svc.yaml to use it anyway, and restart.`
  }
}

/** The choice for an engine whose program is missing; `why` explains why its library cannot replace it. */
export function programMissing (
  engine: string, { name, builds, install }: ProgramDecl, why: string | null = null
): BackendChoice & { backend: null } {
  return {
    backend: null,
    code: 'engine_missing',
    problem: `engine ${engine} needs ${name}, which is not installed${why === null ? '' : `; ${why}`}`,
    remedy: install ?? `Install it: \`svc engine add ${builds}\` on the node; or set ` +
    `${overrideVariable(engine)} to the absolute path of one, and restart.`
  }
}

type Drives = Pick<EngineOffer, 'external' | 'devices'>

/** True if the installed libraries and the listed devices show that a backend works on this machine. */
export function isFound (
  backend: string, { external, devices }: Drives, { cuda, nvidiaDevice }: Runtimes
): boolean {
  if (backend === 'cpu') return true
  if (external === true && devices != null) return listsBackend(devices, backend)
  return backend === 'cuda' && nvidiaDevice && (cuda || external === true)
}

/** The backends that work with the devices a program lists; all backends if the devices are unknown. */
export const offersOf = (backends: readonly string[], devices?: readonly string[] | null): string[] =>
  backends.filter((name) => name === 'cpu' || devices == null || listsBackend(devices, name))

export function declaredBackend (
  backends: Readonly<Record<string, unknown>>, engine: string
): string | undefined {
  const value = Object.hasOwn(backends, engine) ? backends[engine] : undefined
  return typeof value === 'string' ? value : undefined
}

export interface BinaryOverride { variable: string, path: string, problem: string | null }

const OVERRIDE = /^SVC_[A-Z0-9_]+_SERVER_BIN$/

/**
 * The variable that overrides an engine's binary: the engine's name without a trailing `-server`, in
 * capitals, dashes as underscores. `llama-server` reads SVC_LLAMA_SERVER_BIN.
 */
export function overrideVariable (engine: string): string {
  const name = engine.replace(/-server$/, '').toUpperCase().replace(/[^A-Z0-9]/g, '_')
  return `SVC_${name}_SERVER_BIN`
}

/** The binary overrides that are set, each with its problem, if any. `uid` is the node's user. */
export async function checkOverrides (
  env: Readonly<Record<string, string | undefined>>, uid: number
): Promise<BinaryOverride[]> {
  const set = Object.entries(env).filter((entry): entry is [string, string] =>
    OVERRIDE.test(entry[0]) && entry[1] !== undefined)
  return await Promise.all(set.sort().map(async ([variable, path]) =>
    ({ variable, path, problem: await binaryProblem(path, uid) })))
}

/**
 * Why a file must not run as an engine; null if it may. The file, or the target of a link, must be a regular
 * executable file, owned by root or `uid` and writable only by its owner.
 */
export async function binaryProblem (path: string, uid: number): Promise<string | null> {
  if (path === '') return 'is empty'
  if (!isAbsolute(path)) return 'is not an absolute path'
  const facts = await realpath(path).then(async (file) => await stat(file))
    .catch((error: NodeJS.ErrnoException) => error)
  if (facts instanceof Error) {
    return facts.code === 'ENOENT' ? 'does not exist' : `cannot be read (${facts.code ?? facts.message})`
  }
  if (!facts.isFile()) return 'is not a regular file'
  if ((facts.mode & 0o111) === 0) return 'is not executable'
  if (facts.uid !== 0 && facts.uid !== uid) {
    return `belongs to user ${facts.uid}, neither root nor the node's user ${uid}`
  }
  if ((facts.mode & 0o022) !== 0) return `is writable by others (mode ${(facts.mode & 0o777).toString(8)})`
  return null
}

/** Dedicated memory below which an AMD or Intel GPU is considered too small to serve models. */
const SERVING_VRAM_BYTES = 4 * 1024 ** 3

/** Vendors of GPUs that share the machine's memory and report no size. */
const SHARE_MEMORY: ReadonlySet<Gpu['vendor']> = new Set(['apple', 'intel'])

export type ConflictCode = keyof typeof conflicts

export interface EngineOffer {
  name: string
  backends: readonly string[]
  /** True if the engine runs an external program with its own GPU libraries. */
  external?: boolean | undefined
  present?: boolean
  /** Name of the engine's program in `svc engine add`. */
  builds?: string | undefined
  /** The GPUs that the engine's program lists, or the backends of its library; null if unknown. */
  devices?: readonly string[] | null | undefined
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
