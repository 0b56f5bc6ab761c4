import { realpath, stat } from 'node:fs/promises'
import { isAbsolute } from 'node:path'

/** An engine binary override found in the environment; `problem` is null when it is usable. */
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
  const name = engine
    .replace(/-server$/, '')
    .toUpperCase()
    .replace(/[^A-Z0-9]/g, '_')
  return `SVC_${name}_SERVER_BIN`
}

/** Every override that is set, checked. `uid` is the user the node runs as. */
export async function checkOverrides (
  env: Readonly<Record<string, string | undefined>>,
  uid: number
): Promise<BinaryOverride[]> {
  const set = Object.entries(env).filter(
    (entry): entry is [string, string] => OVERRIDE.test(entry[0]) && entry[1] !== undefined
  )
  return await Promise.all(
    set.sort().map(async ([variable, path]) => ({ variable, path, problem: await binaryProblem(path, uid) }))
  )
}

/**
 * Why a file must not be run as an engine; null when it may. Links are followed, and the file they end at
 * is judged: regular, executable, owned by root or `uid`, writable by its owner only.
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
  if ((facts.mode & 0o022) !== 0) return `may be written by others (mode ${(facts.mode & 0o777).toString(8)})`
  return null
}
