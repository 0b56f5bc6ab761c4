import { findConfig, pluginModules, readConfigFile } from '../config/file.js'
import { findSetting } from '../config/resolve.js'
import { arrange } from '../plugins/graph.js'
import { loadThirdParty } from '../plugins/third-party.js'
import { authoritiesOf as authoritiesIn, ownerOf } from '../plugins/owners.js'
import { nearest } from '../config/nearest.js'
import { CliError, exitCodes } from './errors.js'
import type { ConfigOwner } from '../config/known.js'
import type { RawConfig } from '../config/text.js'
import type { JsonSchema } from '../api/schema.js'
import type { Arrangement } from '../plugins/graph.js'
import type { Manifest } from '../api/plugin.js'
import type { VerbContext } from './verb.js'

/** A plugin this home knows, and where it comes from: `bundled`, or as svc.yaml names it. */
export interface Installed { manifest: Manifest, source: string }

/** The plugins of a home as its svc.yaml has them; no node has to run. */
export interface Installation {
  /** Absolute path of the svc.yaml in use, or null. */
  file: string | null
  raw: RawConfig
  plugins: Installed[]
  /** Modules that could not be imported, one sentence each. */
  failures: string[]
}

/** Reads svc.yaml and imports what it names. Never throws for what is wrong there. */
export async function readInstallation (
  ctx: Pick<VerbContext, 'home' | 'io' | 'plugins'>, configFlag: unknown
): Promise<Installation> {
  const file = findConfig({ flag: configFlag as string | undefined, env: ctx.io.env, home: ctx.home })
  const raw = readConfigFile(file)
  const plugins: Installed[] = (await ctx.plugins()).map(({ manifest }) => ({ manifest, source: 'bundled' }))
  const failures: string[] = []
  for (const module of pluginModules(raw)) {
    try {
      plugins.push({ manifest: (await loadThirdParty(module)).manifest, source: module.module })
    } catch (error) {
      failures.push(`plugins.${module.name}: cannot load ${module.module}: ${(error as Error).message}`)
    }
  }
  return { file, raw, plugins, failures }
}

/** What of the plugins describes settings. */
export function ownersOf (plugins: readonly Installed[]): ConfigOwner[] {
  return plugins.map(({ manifest, source }) => ownerOf(manifest, source === 'bundled'))
}

/** Every authority there is with these plugins. */
export function authoritiesOf (plugins: readonly Installed[]): string[] {
  return authoritiesIn(plugins.map((p) => p.manifest))
}

/** The plugins that svc.yaml switches off. */
export function disabledIn ({ raw }: Pick<Installation, 'raw'>): Set<string> {
  const plugins = (raw.value['plugins'] ?? {}) as Record<string, { enabled?: unknown } | null>
  const sections = Object.entries(plugins)
  return new Set(sections.filter(([, section]) => section?.enabled === false).map(([name]) => name))
}

/** What runs, and what is off only because of something else, with that set of disabled plugins. */
export function arranged (installation: Installation, disabled: ReadonlySet<string>): Arrangement {
  return arrange({ manifests: installation.plugins.map((p) => p.manifest), disabled })
}

/** The schema of a setting. Throws CliError (3) with what was probably meant. */
export function settingSchema (owners: readonly ConfigOwner[], key: string): JsonSchema {
  const found = findSetting(owners, key)
  if (found.schema !== null) return found.schema
  const { suggestion } = found
  const folder = key.slice(0, key.lastIndexOf('.') + 1)
  const meant = suggestion?.includes('.') === true ? suggestion : `${folder}${suggestion ?? ''}`
  const near = suggestion === undefined ? '' : `; did you mean ${meant}?`
  throw new CliError(exitCodes.notFound,
    `there is no setting "${key}"${near}\n  \`svc config get\` lists them all`)
}

/** The plugin of that name. Throws CliError (3) with what was probably meant. */
export function findPlugin (installation: Installation, name: string): Installed {
  const found = installation.plugins.find(({ manifest }) => manifest.name === name)
  if (found !== undefined) return found
  const names = installation.plugins.map(({ manifest }) => manifest.name)
  const near = nearest(name, names)
  throw new CliError(exitCodes.notFound, [
    `there is no plugin "${name}"${near === undefined ? '' : `; did you mean ${near}?`}`,
    `  there is: ${names.join(', ') || 'none'}`,
    ...installation.failures.map((failure) => `  ${failure}`)
  ].join('\n'))
}
