import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { kernelError } from '../api/errors.js'
import { requireAuthority } from '../http/access.js'
import { changeFile } from './edit.js'
import { saveConfigFile } from './file.js'
import { AppliedConfig } from './applied-config.js'
import { kernelKeys } from './kernel-settings.js'
import { gatherKnown, isLocal } from './config-schemas.js'
import { formatPath, getIn, parsePath } from './paths.js'
import { readConfigText } from './text.js'
import type { Caller } from '../api/plugin.js'
import type { Env } from './env.js'
import type { ConfigSchemas } from './config-schemas.js'
import type { ConfigOwner } from './owner.js'
import type { Path, Tree } from './paths.js'
import type { ResolvedConfig } from './resolve.js'

export interface ConfigChange {
  /** Revision of the file to change; any when absent. */
  revision?: string
  set: Record<string, unknown>
}

/** The written revision; `undo` restores the text unless it has changed since. */
export interface Saved { revision: string, undo (): void }

export interface ConfigApi {
  /**
   * Applied settings with origins and schemas, settings without a value, the file's revision, and whether the
   * file differs from the applied settings.
   */
  read (): {
    revision: string, file: string, entries: unknown[], unset: unknown[], restart_needed: boolean
  }
  /**
   * Changes svc.yaml only. Throws and writes nothing: `config_changed` if the file has another revision,
   * `invalid_request` for an invalid result, `missing_grant` if the caller may not make the change or would
   * grant more than it has.
   */
  write (change: ConfigChange, caller: Caller): Saved
  value (path: Path): unknown
  /** Marks the values at and below these paths as applied, as in the file and `config`. */
  took (paths: readonly string[], config: ResolvedConfig): void
  /** Adds declarations of plugins that came after the start. */
  know (owners: readonly ConfigOwner[], authorities: readonly string[]): void
  /** Whether the file has changes that are not applied. */
  pending (): boolean
  /** The values of a change without secrets, to show. */
  masked (change: ConfigChange): Record<string, unknown>
  /** Writes a setting that is already in effect, so it needs no restart. Throws as `write`. */
  keep (path: string, value: unknown, caller: Caller): void
}

export interface ConfigApiOptions {
  path: string
  config: ResolvedConfig
  written: unknown
  owners: readonly ConfigOwner[]
  authorities: readonly string[]
  env: Env
}

export function createConfigApi (options: ConfigApiOptions): ConfigApi {
  const text = (): string => existsSync(options.path) ? readFileSync(options.path, 'utf8') : ''
  const saved = (): unknown => readConfigText(text(), null).value
  const inForce = new AppliedConfig(options.config, options.written)
  let { owners, authorities } = options
  const write = ({ revision, set }: ConfigChange, caller: Caller, ownChoice = false): Saved => {
    const before = text()
    if (revision !== undefined && revisionOf(before) !== revision) {
      throw kernelError('config_changed', 'svc.yaml has changed since it was read; read GET /config again.',
        { revision: revisionOf(before) })
    }
    const { path, env } = options
    const after = changeFile(path, before, Object.entries(set).map(([key, value]) =>
      [key, value === null ? undefined : value]), { owners, authorities, env },
    (from, to) => {
      if (!ownChoice) refuseOutOfReach(from, to, gatherKnown(owners))
      authorizeChange(from, to, caller)
    })
    if ('issues' in after) throw refused(after.issues)
    if (after.text === before) return { revision: revisionOf(before), undo: () => {} }
    saveConfigFile(path, after.text)
    return {
      revision: revisionOf(after.text),
      undo () { if (text() === after.text) saveConfigFile(path, before) }
    }
  }
  return {
    read: () => {
      const written = saved()
      return {
        revision: revisionOf(text()), file: options.path, ...inForce.list(written),
        restart_needed: !inForce.says(written)
      }
    },
    write: (change, caller) => write(change, caller),
    value: (path) => getIn(saved(), path),
    took (paths, config) { inForce.take(paths, config, saved()) },
    know (more, granted) {
      owners = more
      authorities = granted
    },
    pending: () => !inForce.says(saved()),
    masked: ({ set }) => Object.fromEntries(Object.entries(set).map(([path, value]) =>
      [path, options.config.masked(path, value)])),
    keep (path, value, caller) {
      write({ set: { [path]: value } }, caller, true)
      inForce.keep(path, value)
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
 * Throws `invalid_request` for a change over HTTP of an `x-local` setting, and for a new reference to the
 * environment, which would reveal its value. Compares parsed contents, so the spelling of a path does not
 * matter.
 */
function refuseOutOfReach (before: unknown, after: unknown, known: ConfigSchemas): void {
  for (const path of changedPaths(before, after)) {
    const value = getIn(after, path)
    const refuse = (message: string): Error => refused([{ path: formatPath(path), message }])
    if (typeof value === 'string' && value.includes('${env.')) {
      throw refuse('a reference like ${env.NAME} works in svc.yaml only; send the value itself')
    }
    if (isLocal(known, path)) {
      throw refuse('can only be set in svc.yaml on the node\'s machine: `svc config set` there, or an editor')
    }
  }
}

/** The paths at which two contents differ, including sections that only one of them has. */
function * changedPaths (before: unknown, after: unknown, path: Path = []): Generator<Path> {
  if (isDeepStrictEqual(before, after)) return
  const holds = (value: unknown): value is Tree => typeof value === 'object' && value !== null
  if (!holds(before) || !holds(after)) yield path
  const keys = [before, after].flatMap((value) => holds(value) ? Object.keys(value) : [])
  for (const key of new Set(keys)) {
    yield * changedPaths(getIn(before, [key]), getIn(after, [key]), [...path, key])
  }
}

/** Throws `missing_grant` for settings of plugins without `plugin:manage`, and for excessive grants. */
function authorizeChange (before: unknown, after: unknown, caller: Caller): void {
  const changed = (path: Path): boolean => !isDeepStrictEqual(getIn(before, path), getIn(after, path))
  if (changed(['plugins'])) requireAuthority(caller, 'plugin:manage')
  // Names, pages and proxies decide which requests count as local, and those need no token.
  const opens = ['allowed_hosts', 'allowed_origins', 'trust_proxy'].some((key) => changed(['api', key]))
  const granted = opens ? [] : localIn(before)
  for (const authority of localIn(after)) {
    if (!granted.includes(authority)) requireAuthority(caller, String(authority))
  }
}

function localIn (file: unknown): readonly unknown[] {
  const value = getIn(file, parsePath('access.local')!)
  return Array.isArray(value) ? value : kernelKeys.access.properties.local.default
}
