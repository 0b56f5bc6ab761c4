import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { kernelError } from '../api/errors.js'
import { requireAuthority } from '../http/access.js'
import { changeFile, withoutGaps } from './edit.js'
import { saveConfigFile } from './file.js'
import { kernelKeys } from './kernel-settings.js'
import { gatherKnown, isLocal } from './config-schemas.js'
import { formatPath, getIn, parsePath, cleanCopy, deleteIn, isUnder, setIn } from './paths.js'
import { readConfigText } from './text.js'
import type { Caller, ConfigOwner } from '../api/plugin.js'
import type { Env } from './env.js'
import type { ConfigSchemas } from './config-schemas.js'
import type { Path, Tree } from './paths.js'
import type { ResolvedConfig } from './resolve.js'

export interface ConfigChange {
  /** Expected file revision; when absent, the change applies to any revision. */
  revision?: string
  set: Record<string, unknown>
}

/** The written revision; `undo` restores the previous text unless the file has changed since. */
export interface Saved { revision: string, undo (): void }

export interface ConfigApi {
  /**
   * Applied settings with origins and schemas, settings without a value, the file's revision, and whether the
   * file differs from the applied settings.
   */
  read (): { revision: string, file: string, entries: unknown[], unset: unknown[], restart_needed: boolean }
  /**
   * Changes only svc.yaml. Throws without writing: `config_changed` if the file has another revision,
   * `invalid_request` for an invalid result, `missing_grant` if the caller lacks the authority or would
   * grant more than it has.
   */
  write (change: ConfigChange, caller: Caller): Saved
  value (path: Path): unknown
  /** Records that the file's values at and below these paths are in effect, as resolved into `config`. */
  took (paths: readonly string[], config: ResolvedConfig): void
  /** Adds declarations of plugins that were loaded after the node started. */
  know (owners: readonly ConfigOwner[], authorities: readonly string[]): void
  /** Whether the file contains changes that have not been applied. */
  pending (): boolean
  /** A change's values for display, with secrets masked. */
  masked (change: ConfigChange): Record<string, unknown>
  /** Writes a setting that is already in effect, so no restart is needed. Throws like `write`. */
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

/** Revision of the file: the first 16 hex digits of its SHA-256. */
function revisionOf (text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function refused (issues: { path: string, message: string }[]): Error {
  return kernelError('invalid_request', issues.map((i) => `${i.path}: ${i.message}`).join('; '),
    { param: issues[0]?.path ?? 'set', issues })
}

/**
 * Throws `invalid_request` if an HTTP request changes an `x-local` setting or adds an environment reference,
 * which would reveal a variable's value. Compares parsed contents, so a path's spelling does not matter.
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

/** Paths at which two file contents differ, including sections that exist in only one of them. */
function * changedPaths (before: unknown, after: unknown, path: Path = []): Generator<Path> {
  if (isDeepStrictEqual(before, after)) return
  const holds = (value: unknown): value is Tree => typeof value === 'object' && value !== null
  if (!holds(before) || !holds(after)) yield path
  const keys = [before, after].flatMap((value) => holds(value) ? Object.keys(value) : [])
  for (const key of new Set(keys)) {
    yield * changedPaths(getIn(before, [key]), getIn(after, [key]), [...path, key])
  }
}

/** Throws `missing_grant` for a plugin change without `plugin:manage`, and for a grant the caller lacks. */
function authorizeChange (before: unknown, after: unknown, caller: Caller): void {
  const changed = (path: Path): boolean => !isDeepStrictEqual(getIn(before, path), getIn(after, path))
  if (changed(['plugins'])) requireAuthority(caller, 'plugin:manage')
  // These settings decide which requests count as local, and local requests need no token.
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

/** The applied contents of svc.yaml: as read at startup, plus later changes that took effect. */
class AppliedConfig {
  readonly #first: ResolvedConfig
  readonly #tree: Tree
  /** Settings of plugins started after the node, in the order in which they were applied. */
  #taken: readonly { readonly under: Path, readonly config: ResolvedConfig }[] = []
  /** Values of settings that plugins have changed and put into effect themselves. */
  readonly #kept = new Map<string, unknown>()

  constructor (config: ResolvedConfig, written: unknown) {
    this.#first = config
    this.#tree = cleanCopy(written) as Tree
  }

  /** The resolved configuration that applies at a path. */
  at (path: string): ResolvedConfig {
    const parts = parsePath(path) ?? []
    return this.#taken.findLast(({ under }) => isUnder(parts, under))?.config ?? this.#first
  }

  /** Applies the values in `written` at and below these paths; `config` is the resolved configuration. */
  take (paths: readonly string[], config: ResolvedConfig, written: unknown): void {
    for (const path of paths) {
      const under = parsePath(path)!
      const value = getIn(written, under)
      if (value === undefined) deleteIn(this.#tree, under)
      else setIn(this.#tree, under, cleanCopy(value))
      // Replaces earlier entries at and below the path, so that repeated changes by a plugin do not pile up.
      this.#taken = [...this.#taken.filter((one) => !isUnder(one.under, under)), { under, config }]
    }
  }

  keep (path: string, value: unknown): void {
    setIn(this.#tree, parsePath(path)!, value)
    this.#kept.set(path, value)
  }

  says (written: unknown): boolean {
    return isDeepStrictEqual(withoutGaps(written), withoutGaps(this.#tree))
  }

  /** All settings with their schemas; `restart` marks those whose value in the file is not in effect yet. */
  list (written: unknown): { entries: unknown[], unset: unknown[] } {
    const configs = [...new Set([this.#first, ...this.#taken.map(({ config }) => config)])]
    const schemas = new Map(configs.flatMap((config) => [...config.schemas()]
      .filter(([path]) => this.at(path) === config)))
    const shown: { path: string }[] = configs.flatMap((config) => config.entries()
      .filter(({ path }) => this.at(path) === config && !this.#kept.has(path)))
    for (const [path, value] of this.#kept) shown.push({ path, ...{ value, origin: 'file' } })
    const restart = (path: string): { restart?: true } => {
      const place = parsePath(path)!
      return isDeepStrictEqual(getIn(written, place), getIn(this.#tree, place)) ? {} : { restart: true }
    }
    const known = new Set(shown.map(({ path }) => path))
    return {
      entries: shown.map((entry) =>
        ({ ...entry, ...restart(entry.path), schema: schemas.get(entry.path) ?? null })),
      unset: [...schemas].filter(([path]) => !known.has(path))
        .map(([path, schema]) => ({ path, ...restart(path), schema }))
    }
  }
}
