import { realpath, stat } from 'node:fs/promises'
import { isAbsolute } from 'node:path'
import type { ProgramDecl } from '../../../kernel/index.js'
import { listsBackend } from './programs.js'
import type { Runtimes } from './runtimes.js'

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
  engine: string, { name, builds }: ProgramDecl, why: string | null = null
): BackendChoice & { backend: null } {
  return {
    backend: null,
    code: 'engine_missing',
    problem: `engine ${engine} needs ${name}, which is not installed${why === null ? '' : `; ${why}`}`,
    remedy: `Install it: \`svc engine add ${builds}\` on the node; or set ${overrideVariable(engine)} to ` +
      'the absolute path of one, and restart.'
  }
}

interface Drives {
  /** True if the engine runs an external program with its own GPU libraries. */
  external?: boolean | undefined
  /** The GPUs that the program lists, or the backends of the engine's library; null if unknown. */
  devices?: readonly string[] | null | undefined
}

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

export interface BinaryOverride {
  variable: string
  path: string
  problem: string | null
}

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
  const facts = await realpath(path)
    .then(async (file) => await stat(file))
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
