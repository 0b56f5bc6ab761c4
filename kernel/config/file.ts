import {
  closeSync, constants, existsSync, fstatSync, lstatSync, openSync, readFileSync, realpathSync, statSync
} from 'node:fs'
import { join, resolve } from 'node:path'
import { writeWhole } from '../boot/home.js'
import { isTree } from './paths.js'
import { readConfigText, type RawConfig } from './text.js'
import { formats, isModulePath } from './values.js'
import type { Env } from './env.js'
import type { Problem } from './problems.js'

/** Maximum size of svc.yaml in bytes. */
export const maxFileBytes = 1024 * 1024

/**
 * Finds the configuration file: `--config`, SVC_CONFIG, then `<home>/svc.yaml`; null if there is none. The
 * first two may name a missing file, so that reading it reports the problem.
 */
export function findConfig (options: { flag?: string | undefined, env: Env, home: string }): string | null {
  const named = options.flag ?? options.env['SVC_CONFIG']
  if (named !== undefined && named !== '') return resolve(named)
  const path = join(resolve(options.home), 'svc.yaml')
  try {
    lstatSync(path)
    return path
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    return code === 'ENOENT' || code === 'ENOTDIR' ? null : path
  }
}

/** Reads svc.yaml; adds faults to `problems` and never throws. A null path gives an empty configuration. */
export function readConfigFile (path: string | null): RawConfig {
  if (path === null) return readConfigText('', null)
  const file = resolve(path)
  const read = readSafely(file)
  if (typeof read !== 'string') return readConfigText(read.text, file)
  const problem: Problem = { file, line: null, column: null, path: '', message: read }
  return { ...readConfigText('', file), problems: [problem], broken: true }
}

const ownId = (): number | undefined => process.getuid?.()

/** Why the owner of a file with code, or of svc.yaml, which names code, is not trusted; null if trusted. */
export function untrustedOwner (owner: number, own = ownId()): string | null {
  if (own === undefined || owner === own || owner === 0) return null
  return `belongs to user ${owner}, neither to user ${own} who runs svc nor to root`
}

/** Reads the file; a string result is the reason why it cannot be read. */
function readSafely (file: string): string | { text: string } {
  let handle: number
  try {
    handle = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    const code = String((error as NodeJS.ErrnoException).code)
    return code === 'ENOENT' ? 'there is no such file' : `cannot be read (${code})`
  }
  try {
    const { mode, size, uid } = fstatSync(handle)
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) return 'is not a regular file'
    if ((mode & 0o022) !== 0) {
      const shown = (mode & 0o777).toString(8)
      return `may be written by group or others (mode ${shown}) though it can name code to load; ` +
        `run: chmod go-w '${file}'`
    }
    const untrusted = untrustedOwner(uid)
    if (untrusted !== null) {
      return `${untrusted}, though it can name code to load; run: chown ${ownId()} '${file}'`
    }
    if (size > maxFileBytes) return `is too large: ${size} bytes, at most ${maxFileBytes} are allowed`
    return decode(readFileSync(handle))
  } catch (error) {
    return `cannot be read (${String((error as NodeJS.ErrnoException).code)})`
  } finally {
    closeSync(handle)
  }
}

function decode (bytes: Buffer): string | { text: string } {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    return 'is not UTF-8 text'
  }
}

/** Writes svc.yaml atomically. Links and permissions stay; a new file is readable by its owner only. */
export function saveConfigFile (path: string, text: string): void {
  if (!existsSync(path)) return writeWhole(path, text)
  const target = realpathSync(path)
  writeWhole(target, text, statSync(target).mode & 0o777)
}

export interface PluginModule {
  readonly name: string
  readonly module: string
  /** Absolute path of svc.yaml, from which relative paths and packages are resolved. */
  readonly resolvedFrom: string
  /** Absolute path of the module, or null when `module` names a package. */
  readonly path: string | null
}

/**
 * Lists the modules in `plugins.<name>.module`; `resolveConfig` needs them imported first, for their schemas.
 * Skips malformed entries, which `resolveConfig` reports.
 */
export function pluginModules (raw: RawConfig): PluginModule[] {
  const plugins = raw.value['plugins']
  if (raw.file === null || !isTree(plugins)) return []
  const resolvedFrom = resolve(raw.file)
  return Object.entries(plugins).flatMap(([name, settings]) => {
    const module = isTree(settings) ? settings['module'] : undefined
    if (typeof module !== 'string' || formats['module']?.test(module) !== true) return []
    const path = isModulePath(module) ? resolve(resolvedFrom, '..', module) : null
    return [{ name, module, resolvedFrom, path }]
  })
}
