import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { findConfig, pluginModules, readConfigFile } from '../config/index.js'
import { arrange } from '../graph.js'
import { kernelManifest } from '../kernel-manifest.js'
import { nearest } from '../config/nearest.js'
import { CliError, exitCodes } from './errors.js'
import type { ConfigOwner, PluginModule, RawConfig } from '../config/index.js'
import type { Arrangement } from '../graph.js'
import type { Manifest, Plugin } from '../define.js'
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
export async function readInstallation (ctx: VerbContext, configFlag: unknown): Promise<Installation> {
  const file = findConfig({ flag: configFlag as string | undefined, env: ctx.io.env, home: ctx.home })
  const raw = readConfigFile(file)
  const plugins: Installed[] = (await ctx.plugins()).map(({ manifest }) => ({ manifest, source: 'bundled' }))
  const failures: string[] = []
  for (const module of pluginModules(raw)) {
    try {
      plugins.push({ manifest: await importManifest(module), source: module.module })
    } catch (error) {
      failures.push(`plugins.${module.name}: cannot load ${module.module}: ${(error as Error).message}`)
    }
  }
  return { file, raw, plugins, failures }
}

async function importManifest ({ path, module, resolvedFrom, name }: PluginModule): Promise<Manifest> {
  const found = path ?? createRequire(join(resolvedFrom, 'svc.yaml')).resolve(module)
  const { default: plugin } = await import(pathToFileURL(found).href) as { default?: Partial<Plugin> }
  if (plugin?.manifest === undefined) throw new Error('its default export is not what definePlugin returns')
  if (plugin.manifest.name !== name) throw new Error(`it calls itself "${plugin.manifest.name}", svc.yaml "${name}"`)
  return plugin.manifest
}

/** What of the plugins describes settings. */
export function ownersOf (plugins: readonly Installed[]): ConfigOwner[] {
  return plugins.map(({ manifest, source }) => ({
    name: manifest.name,
    bundled: source === 'bundled',
    ...(manifest.config === undefined ? {} : { config: manifest.config }),
    ...(manifest.settings === undefined ? {} : { settings: manifest.settings })
  }))
}

/** Every authority there is. */
export function authoritiesOf (plugins: readonly Installed[]): string[] {
  return [kernelManifest, ...plugins.map((p) => p.manifest)].flatMap((m: Manifest) => Object.keys(m.authorities ?? {}))
}

/** The plugins that svc.yaml switches off. */
export function disabledIn ({ raw }: Pick<Installation, 'raw'>): Set<string> {
  const sections = Object.entries((raw.value['plugins'] ?? {}) as Record<string, { enabled?: unknown } | null>)
  return new Set(sections.filter(([, section]) => section?.enabled === false).map(([name]) => name))
}

/** What runs, and what is off only because of something else, with that set of disabled plugins. */
export function arranged (installation: Installation, disabled: ReadonlySet<string>): Arrangement {
  return arrange({ manifests: installation.plugins.map((p) => p.manifest), disabled })
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
