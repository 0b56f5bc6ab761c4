import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { kernelError } from '../api/errors.js'
import { requireAuthority } from '../http/access.js'
import { changeFile } from './edit.js'
import { saveConfigFile } from './file.js'
import { kernelKeys } from './kernel-keys.js'
import { cleanCopy, formatPath, getIn, isTree, parsePath, setIn } from './paths.js'
import { readConfigText } from './text.js'
import type { Caller } from '../api/plugin.js'
import type { Env } from './env.js'
import type { ConfigOwner } from './known.js'
import type { Path, Tree } from './paths.js'
import type { ResolvedConfig } from './resolve.js'

/** A change as a client asks for it: values by dotted path, null to remove. */
export interface ConfigChange { revision: string, set: Record<string, unknown> }

export interface ConfigApi {
  /**
   * The settings in force with their origins and schemas, those that have no value, and the revision of the
   * file as it is now; whether the file says anything else than when the node started.
   */
  read (): {
    revision: string, file: string, entries: unknown[], unset: unknown[], restart_needed: boolean
  }
  /**
   * Changes svc.yaml; it takes effect at the next restart. Throws `config_changed` when the file is not of
   * the given revision any more, `invalid_request` when the result would be wrong, `missing_grant` when the
   * caller may not change that or would grant more than it has itself (nothing is written).
   */
  write (change: ConfigChange, caller: Caller): { revision: string, restart_needed: boolean }
  /** Writes a setting that is in force already: no restart is needed for it. Throws as `write`. */
  keep (path: string, value: unknown, caller: Caller): void
}

export interface ConfigApiOptions {
  /** svc.yaml in use, or where it would be made. */
  path: string
  config: ResolvedConfig
  /** What the file said when the node started, parsed. */
  written: unknown
  owners: readonly ConfigOwner[]
  authorities: readonly string[]
  /** The node's environment, for `${env.NAME}`. */
  env: Env
  onChange: () => void
}

/** Reading and changing svc.yaml over the API. */
export function createConfigApi (options: ConfigApiOptions): ConfigApi {
  const text = (): string => existsSync(options.path) ? readFileSync(options.path, 'utf8') : ''
  const inForce = cleanCopy(options.written) as Tree
  const kept = new Map<string, unknown>()
  const write = ({ revision, set }: ConfigChange, caller: Caller, changed: () => void): string => {
    const before = text()
    if (revisionOf(before) !== revision) {
      throw kernelError('config_changed', 'svc.yaml has changed since it was read; read GET /config again.',
        { revision: revisionOf(before) })
    }
    const { owners, authorities, env } = options
    const after = changeFile(options.path, before, Object.entries(set).map(([path, value]) =>
      [options.config.writtenAt(path), value === null ? undefined : value]), { owners, authorities, env })
    if ('issues' in after) throw refused(after.issues)
    authorizeChange(readConfigText(before, null).value, readConfigText(after.text, null).value, caller)
    if (after.text !== before) {
      saveConfigFile(options.path, after.text)
      changed()
    }
    return after.text
  }
  return {
    read: () => {
      const now = text()
      const { config } = options
      const schemas = config.schemas()
      const shown: { path: string }[] = config.entries().filter(({ path }) => !kept.has(path))
      for (const [path, value] of kept) shown.push({ path, ...{ value, origin: 'file' } })
      const written = readConfigText(now, null).value
      // Written, and not in force before this node starts anew.
      const restart = (path: string): { restart?: true } => {
        const at = parsePath(config.writtenAt(path))!
        return isDeepStrictEqual(getIn(written, at), getIn(inForce, at)) ? {} : { restart: true }
      }
      const entries = shown.map((entry) =>
        ({ ...entry, ...restart(entry.path), schema: schemas.get(entry.path) ?? null }))
      const known = new Set(shown.map(({ path }) => path))
      // The module of a plugin is not set over HTTP.
      const unset = [...schemas].filter(([path, { format }]) => !known.has(path) && format !== 'module')
        .map(([path, schema]) => ({ path, ...restart(path), schema }))
      return {
        revision: revisionOf(now), file: options.path, entries, unset,
        restart_needed: !isDeepStrictEqual(written, inForce)
      }
    },
    write (change, caller) {
      let changed = false
      const after = write(change, caller, () => { changed = true; options.onChange() })
      return { revision: revisionOf(after), restart_needed: changed }
    },
    keep (path, value, caller) {
      write({ revision: revisionOf(text()), set: { [path]: value } }, caller, () => {})
      setIn(inForce, parsePath(options.config.writtenAt(path))!, value)
      kept.set(path, value)
    }
  }
}

/** First 16 hex digits of SHA-256 over the file. */
function revisionOf (text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function refused (issues: { path: string, message: string }[]): Error {
  return kernelError('invalid_request', issues.map((i) => `${i.path}: ${i.message}`).join('; '),
    { param: issues[0]?.path ?? 'set', issues })
}

/**
 * Whether a caller may change svc.yaml over HTTP from one parsed text to another. Compares what the texts
 * say, so that no way of writing a path makes a difference. Throws `invalid_request` for the module of a
 * plugin, which would be code to run; `missing_grant` for settings of plugins without `plugin:manage`, and
 * for granting what the caller has not.
 */
function authorizeChange (before: unknown, after: unknown, caller: Caller): void {
  const changed = (path: Path): boolean => !isDeepStrictEqual(getIn(before, path), getIn(after, path))
  const plugins = getIn(after, ['plugins'])
  for (const name of isTree(plugins) ? Object.keys(plugins) : []) {
    const path = ['plugins', name, 'module']
    if (getIn(after, path) !== undefined && changed(path)) throw notOverHttp(formatPath(path))
  }
  if (changed(['plugins'])) requireAuthority(caller, 'plugin:manage')
  const granted = localIn(before)
  for (const authority of localIn(after)) {
    if (!granted.includes(authority)) requireAuthority(caller, String(authority))
  }
}

/** What needs no token in a file. */
function localIn (file: unknown): readonly unknown[] {
  const value = getIn(file, parsePath('access.local')!)
  return Array.isArray(value) ? value : kernelKeys.access.properties.local.default
}

function notOverHttp (path: string): Error {
  const message = 'names code to run; only the owner of svc.yaml sets it, in the file itself'
  return kernelError('invalid_request', `${path} ${message}`, { param: path, issues: [{ path, message }] })
}
