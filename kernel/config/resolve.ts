/**
 * Configuration in two phases: first, `readConfigFile` reads svc.yaml and `pluginModules` names the plugins
 * to import; then `resolveConfig`, which needs every schema, combines flags, environment, file and defaults
 * and reports all problems at once.
 */
import type { JsonSchema } from '../api/schema.js'
import { HIDDEN, withoutUrlSecrets } from '../net/urls.js'
import { makeDraft, openSections, overlayOf, problemAt, type Draft } from './draft.js'
import { kernelKeys, kernelRules, type KernelConfig } from './kernel-settings.js'
import { gatherKnown, isLocal, schemaAt, suggestKey } from './config-schemas.js'
import { nearest } from './nearest.js'
import { cleanCopy, deepFreeze, formatPath, getIn, isTree, isUnder, parsePath, type Path } from './paths.js'
import { isHidden, unknownKey, validateDraft } from './validate.js'
import type { Env } from './env.js'
import type { Problem } from './problems.js'
import type { RawConfig } from './text.js'
import type { ConfigOwner } from '../api/plugin.js'

export type Origin = 'flag' | 'env' | 'file' | 'default'

export interface Entry {
  readonly path: string
  /** The value; secrets are shown as `********`. */
  readonly value: unknown
  readonly origin: Origin
  readonly line?: number
  readonly source?: string
  /** True if no HTTP route may change the setting. */
  readonly local?: true
}

/** The settings in effect: validated, with defaults, frozen; maps have no prototype. */
export interface ResolvedConfig {
  readonly kernel: KernelConfig
  enabled (plugin: string): boolean
  /** The settings of `plugins.<name>` without the kernel's `enabled` and `module`. */
  plugin (name: string): Readonly<Record<string, unknown>>
  settings (key: string): unknown
  /** All settings with their origins, or only those at and below a dotted path. */
  entries (under?: string): Entry[]
  /** The given value of the setting at `path`, with secrets masked as `********`. */
  masked (path: string, value: unknown): unknown
  /** The schema of every setting that may be written, by dotted path. */
  schemas (): ReadonlyMap<string, JsonSchema>
}

export interface ResolveInput {
  readonly owners: readonly ConfigOwner[]
  readonly env: Env
  readonly flags?: Readonly<Record<string, unknown>>
  /** All declared authorities; if given, `access.local` is checked for unknown ones. */
  readonly authorities?: readonly string[]
}

/**
 * Combines flags, environment, file and defaults, in this order of precedence, and checks the result. Returns
 * every problem; `config` is usable only if there are none. Warnings do not prevent a start.
 */
export function resolveConfig (
  raw: RawConfig, input: ResolveInput
): { config: ResolvedConfig, problems: Problem[], warnings: Problem[] } {
  const owners = [...input.owners, ...notLoaded(raw, input.owners)]
  const draft = makeDraft(raw, gatherKnown(owners), input.env, input.flags ?? {})
  openSections(draft)
  checkNames(draft, input.owners)
  validateDraft(draft)
  for (const { path, check } of kernelRules) {
    const message = check(draft.tree)
    if (message !== null) draft.problems.push(problemAt(draft, path, message))
  }
  checkAuthorities(draft, input.authorities)
  return { config: makeResolved(draft), problems: inOrder(draft.problems), warnings: inOrder(draft.warnings) }
}

/** Plugins in the file whose module is not loaded, so only the kernel's keys can be checked. */
function notLoaded (raw: RawConfig, owners: readonly ConfigOwner[]): ConfigOwner[] {
  const plugins = raw.value['plugins']
  const names = isTree(plugins) ? Object.keys(plugins) : []
  const unknown = names.filter((name) => !owners.some((owner) => owner.name === name))
  return unknown.filter((name) => getIn(plugins, [name, 'module']) !== undefined)
    .map((name) => ({ name, bundled: false, config: { type: 'object', additionalProperties: true } }))
}

const pluginName = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/

function checkNames (draft: Draft, loaded: readonly ConfigOwner[]): void {
  const tops = new Set(draft.known.pieces.map((piece) => piece.path[0]))
  for (const key of Object.keys(draft.tree)) {
    if (key !== 'plugins' && !tops.has(key)) draft.problems.push(unknownKey(draft, [key]))
  }
  const plugins = draft.tree['plugins']
  if (plugins === undefined) return
  if (!isTree(plugins)) {
    draft.problems.push(problemAt(draft, ['plugins'], 'expected the names of plugins, each with its keys'))
    return
  }
  for (const name of Object.keys(plugins)) {
    if (!loaded.some((owner) => owner.name === name)) checkStranger(draft, name)
  }
}

function checkStranger (draft: Draft, name: string): void {
  const path: Path = ['plugins', name]
  if (getIn(draft.tree, [...path, 'module']) === undefined) {
    const suggestion = suggestKey(draft.known, path)?.key
    const message = 'there is no such plugin, and no `module` gives its location'
    draft.problems.push(problemAt(draft, path, message, suggestion === undefined ? {} : { suggestion }))
  } else if (!pluginName.test(name)) {
    const rule = 'a plugin name consists of lower-case letters, digits and single dashes'
    draft.problems.push(problemAt(draft, path, rule))
  } else {
    draft.warnings.push(problemAt(draft, path, 'its keys are not checked, because its module is not loaded'))
  }
}

function checkAuthorities (draft: Draft, authorities: readonly string[] | undefined): void {
  const granted = getIn(draft.tree, ['access', 'local'])
  if (authorities === undefined || !Array.isArray(granted)) return
  granted.forEach((authority, index) => {
    if (typeof authority !== 'string' || authorities.includes(authority)) return
    const suggestion = nearest(authority, authorities)
    draft.problems.push(problemAt(draft, ['access', 'local', String(index)],
      `there is no authority ${JSON.stringify(authority)}`, suggestion === undefined ? {} : { suggestion }))
  })
}

/** Sorts problems by position in the file; problems from other sources come last. */
function inOrder (problems: readonly Problem[]): Problem[] {
  const last = Number.MAX_SAFE_INTEGER
  return [...problems].sort((a, b) => {
    const lines = (a.line ?? last) - (b.line ?? last)
    return lines === 0 ? (a.column ?? 0) - (b.column ?? 0) : lines
  })
}

function makeResolved (draft: Draft): ResolvedConfig {
  const { known } = draft
  const tree = deepFreeze(cleanCopy(draft.tree))
  const given = Object.keys(kernelKeys).map((key) => [key, getIn(tree, [key])] as const)
  const kernel = Object.fromEntries(given.filter(([, value]) => value !== undefined))
  return {
    kernel: deepFreeze(kernel) as unknown as KernelConfig,
    enabled: (plugin) => getIn(tree, ['plugins', plugin, 'enabled']) !== false,
    plugin: (name) => pluginKeys(getIn(tree, ['plugins', name])),
    settings: (key) => getIn(tree, [key]),
    entries: (under) => {
      const prefix = under === undefined ? [] : parsePath(under) ?? [under]
      const all = known.pieces.flatMap(({ path }) => listEntries(draft, getIn(tree, path), path))
      return all.filter((entry) => isUnder(parsePath(entry.path) ?? [], prefix))
    },
    schemas: () => new Map(known.leaves.map(({ path, schema }) => [formatPath(path), schema])),
    masked: (path, value) => {
      const at = parsePath(path) ?? [path]
      // The keys of a module that is not loaded are unknown, so their values may be secrets.
      return value !== null && schemaAt(known, at) === undefined ? HIDDEN : mask(draft, value, at)
    }
  }
}

function pluginKeys (value: unknown): Readonly<Record<string, unknown>> {
  const { enabled: _, module: __, ...own } = isTree(value) ? value : {}
  return Object.freeze(Object.assign(Object.create(null) as Record<string, unknown>, own))
}

/** Lists a value's settings in schema order; an empty map is one too unless its schema has `properties`. */
function listEntries (draft: Draft, value: unknown, path: Path): Entry[] {
  if (value === undefined) return []
  if (isTree(value)) {
    const named = schemaAt(draft.known, path)?.['properties']
    const keys = new Set([...Object.keys(isTree(named) ? named : {}), ...Object.keys(value)])
    const inner = [...keys].flatMap((key) => listEntries(draft, value[key], [...path, key]))
    if (inner.length > 0 || isTree(named)) return inner
  }
  const local = isLocal(draft.known, path) ? { local: true } as const : {}
  return [{ path: formatPath(path), value: mask(draft, value, path), ...originOf(draft, path), ...local }]
}

function mask (draft: Draft, value: unknown, path: Path): unknown {
  if (isHidden(draft, path)) return HIDDEN
  if (typeof value === 'string') return withoutUrlSecrets(value)
  if (Array.isArray(value)) return value.map((one, index) => mask(draft, one, [...path, String(index)]))
  if (!isTree(value)) return value
  const inner = Object.entries(value).map(([key, one]) => [key, mask(draft, one, [...path, key])] as const)
  return Object.fromEntries(inner)
}

function originOf (draft: Draft, path: Path): { origin: Origin, line?: number, source?: string } {
  const overlay = overlayOf(draft, path)
  if (overlay !== undefined) return { origin: overlay.origin, source: overlay.source }
  const position = draft.raw.position(path)
  return position === undefined ? { origin: 'default' } : { origin: 'file', line: position.line }
}

/** The schema of a setting by dotted path, or a suggestion. For `config get` and `config set`. */
export function findSetting (
  owners: readonly ConfigOwner[], path: string
): { schema: JsonSchema } | { schema: null, suggestion?: string } {
  const known = gatherKnown(owners)
  const parsed = parsePath(path)
  const schema = parsed === null ? undefined : schemaAt(known, parsed)
  if (schema !== undefined) return { schema }
  const suggestion = parsed === null ? undefined : suggestKey(known, parsed)?.path
  return suggestion === undefined ? { schema: null } : { schema: null, suggestion }
}
