import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { makeFolder } from '../boot/home.js'
import { changeFile } from '../config/edit.js'
import { saveConfigFile } from '../config/file.js'
import { getIn, parsePath } from '../config/paths.js'
import { findSetting, resolveConfig } from '../config/resolve.js'
import { nearest } from '../config/nearest.js'
import { sortByDependency, type StartOrder } from '../plugins/graph.js'
import { readInstallation, type Installation } from '../plugins/installation.js'
import { disabledMessage } from '../plugins/load.js'
import { ownHome } from './client.js'
import { failuresOf } from './contributed.js'
import { CliError, exitCodes } from './errors.js'
import { homeOption, programIn, shellWord } from './shell.js'
import type { FromSchema, JsonSchema } from '../api/schema.js'
import type { systemRoutes } from '../http/system-routes.js'
import type { VerbContext } from './verb.js'
import type { ConfigOwner } from '../api/plugin.js'

export async function installationOf (
  { home, io, plugins }: Pick<VerbContext, 'home' | 'io' | 'plugins'>, configFlag?: unknown
): Promise<Installation> {
  return await readInstallation({
    home, env: io.env, bundled: await plugins(), configFlag: configFlag as string | undefined
  })
}

export const sectionsIn = ({ raw }: Pick<Installation, 'raw'>) =>
  (raw.value['plugins'] ?? {}) as Record<string, { enabled?: unknown, module?: unknown } | null>

export function disabledIn (installation: Pick<Installation, 'raw'>): Set<string> {
  const sections = Object.entries(sectionsIn(installation))
  return new Set(sections.filter(([, section]) => section?.enabled === false).map(([name]) => name))
}

/** Why svc.yaml or a variable disables a plugin; undefined if the plugin is enabled. */
export async function whyOff (ctx: VerbContext, name: string): Promise<string | undefined> {
  const installation = await installationOf(ctx)
  const { config } = resolveConfig(installation.raw, { ...installation, env: ctx.io.env })
  const off = installation.plugins.filter(({ manifest }) => !config.enabled(manifest.name))
  const found = off.find(({ manifest }) => manifest.name === name)
  if (found !== undefined) return disabledMessage(found)
  const { down } = sortInstalled(installation, new Set(off.map(({ manifest }) => manifest.name)))
  return down.find(({ plugin }) => plugin === name)?.message
}

/** Sorts plugins into those that run and those that are off because a required plugin is `disabled`. */
export function sortInstalled (installation: Installation, disabled: ReadonlySet<string>): StartOrder {
  return sortByDependency({ manifests: installation.plugins.map((p) => p.manifest), disabled })
}

/** Schema of a setting. Throws CliError (3) with a suggestion for an unknown key. */
export function settingSchema (owners: readonly ConfigOwner[], key: string): JsonSchema {
  const found = findSetting(owners, key)
  if (found.schema !== null) return found.schema
  const near = found.suggestion === undefined ? '' : `; did you mean ${found.suggestion}?`
  throw new CliError(exitCodes.notFound,
    `there is no setting "${key}"${near}\n  \`svc config get\` lists them all`)
}

/** Finds a plugin by name. Throws CliError (3) with a suggestion for an unknown name. */
export function findPlugin (installation: Installation, name: string): Installation['plugins'][number] {
  const found = installation.plugins.find(({ manifest }) => manifest.name === name)
  if (found !== undefined) return found
  const names = installation.plugins.map(({ manifest }) => manifest.name)
  const near = nearest(name, names)
  throw new CliError(exitCodes.notFound, [
    `there is no plugin "${name}"${near === undefined ? '' : `; did you mean ${near}?`}`,
    `  plugins: ${names.join(', ') || 'none'}`,
    ...failuresOf(installation).map((failure) => `  ${failure}`)
  ].join('\n'))
}

/**
 * Changes one setting in svc.yaml (undefined removes it) and returns the file's path. Throws CliError,
 * leaving the file unchanged: (1) if the text cannot be changed or written, (2) if the setting is invalid.
 */
export function changeSetting (
  { home, io }: VerbContext, installation: Installation, key: string, value: unknown
): string {
  const path = installation.file ?? join(home, 'svc.yaml')
  const before = existsSync(path) ? readFileSync(path, 'utf8') : ''
  const after = changeFile(path, before, [[key, value]], { ...installation, env: io.env })
  if ('issues' in after) {
    const reports = after.issues.map(({ report }) => report)
    if (after.wrong === 'path') throw new CliError(exitCodes.failed, reports.join('\n'))
    throw new CliError(exitCodes.usage, `not changed:\n${reports.map((line) => `  ${line}`).join('\n')}`)
  }
  try {
    makeFolder(dirname(path))
    if (after.text !== before) saveConfigFile(path, after.text)
  } catch (error) {
    throw new CliError(exitCodes.failed, `cannot write ${path}: ${(error as Error).message}`)
  }
  return path
}

/** Lines that explain how to restart a running node to apply a change in svc.yaml. */
export function restartHint (ctx: VerbContext): string[] {
  const there = ctx.elsewhere === undefined ? homeOption(ctx.home) : ` --url ${shellWord(ctx.elsewhere)}`
  return [`It takes effect at the next restart of the node: ${programIn(ctx.io.cwd)} restart${there}`]
}

type Switched = FromSchema<typeof systemRoutes.switchPlugin.reply>

export interface SwitchEffect {
  inEffect: boolean
  /** Why the change is not in effect yet; null if no node runs on this home. */
  why: string | null
  /** True if a restart would put the change into effect. */
  restart: boolean
}

export function nodeRuns ({ home, client }: VerbContext, configFlag: unknown): boolean {
  return configFlag === undefined && ownHome(home, client.url) === home
}

/**
 * Changes a setting, or resets it to its default (undefined). To enable or disable a plugin, asks the running
 * node; all other settings change in the file, and the node applies those of plugins that reload them. Throws
 * CliError without any change.
 */
export async function apply (
  ctx: VerbContext, installation: Installation, key: string, value: unknown, configFlag: unknown
): Promise<SwitchEffect & { file: string }> {
  const plugin = value === undefined || typeof value === 'boolean' ? switchOf(key) : undefined
  if (plugin === undefined || !nodeRuns(ctx, configFlag)) {
    const file = changeSetting(ctx, installation, key, value)
    const unapplied = { file, inEffect: false, why: null, restart: true }
    const owner = reloadedBy(installation, key)
    if (owner === undefined || !nodeRuns(ctx, configFlag)) return unapplied
    return await turn(ctx, owner, true).then((effect) => ({ file, ...effect }), (error: CliError) => {
      // The setting is written, so a node that does not answer applies it at its next start.
      if (error.api?.reason !== 'plugin_failed') return { ...unapplied, why: error.message }
      changeSetting(ctx, installation, key, getIn(installation.raw.value, parsePath(key) ?? []))
      throw error
    })
  }
  const file = installation.file ?? join(ctx.home, 'svc.yaml')
  return { file, ...await turn(ctx, plugin, value !== false) }
}

/** Name of the enabled plugin that applies a change of this setting while the node runs, if there is one. */
function reloadedBy (installation: Installation, key: string): string | undefined {
  const [top = ''] = parsePath(key) ?? []
  const found = installation.plugins.find(({ manifest: { reloads, settings = {} } }) =>
    reloads === true && Object.hasOwn(settings, top))?.manifest.name
  return found !== undefined && disabledIn(installation).has(found) ? undefined : found
}

/** Name of the plugin that a setting enables or disables; undefined for every other setting. */
function switchOf (path: string): string | undefined {
  const [top, plugin, key, ...more] = parsePath(path) ?? []
  return top === 'plugins' && key === 'enabled' && more.length === 0 ? plugin : undefined
}

/** Asks the node to enable or disable a plugin. Throws CliError with the node's error. */
export async function turn ({ client }: VerbContext, name: string, enabled: boolean): Promise<SwitchEffect> {
  const { in_effect: inEffect, why, restart_needed: restart } =
    await client.json<Switched>(`/v1/plugins/${encodeURIComponent(name)}`, { body: { enabled } })
  return { inEffect, why, restart }
}

export type PluginAtNode = FromSchema<typeof systemRoutes.plugins.reply>['plugins'][number]

/** Plugins of a remote node, or of this home's running node; undefined if none runs. Throws CliError. */
export async function pluginsAtNode (
  ctx: VerbContext, configFlag: unknown
): Promise<PluginAtNode[] | undefined> {
  if (ctx.elsewhere === undefined && !nodeRuns(ctx, configFlag)) return undefined
  return (await ctx.client.json<{ plugins: PluginAtNode[] }>('/v1/plugins')).plugins
}

/** After enabling or disabling a plugin: prints why it is not in effect yet, and how to restart the node. */
export function printEffect (ctx: VerbContext, { inEffect, why, restart }: SwitchEffect): void {
  if (inEffect) return
  if (why !== null) ctx.out.line(why)
  if (restart) for (const line of restartHint(ctx)) ctx.out.line(line)
}
