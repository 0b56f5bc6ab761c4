import { statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { BootError } from '../api/errors.js'
import { compileStrict, compileText } from '../api/validate.js'
import { capabilityProblems } from '../calls/registry.js'
import { findConfig, pluginModules, readConfigFile, untrustedOwner } from '../config/file.js'
import { formatProblems } from '../config/problems.js'
import { resolveConfig } from '../config/resolve.js'
import { arrange } from './graph.js'
import { kernelManifest } from './kernel-manifest.js'
import { checkManifests } from './registry.js'
import type { Manifest, Plugin } from '../api/plugin.js'
import type { PluginModule } from '../config/file.js'
import type { ConfigOwner } from '../config/known.js'
import type { ResolvedConfig } from '../config/resolve.js'
import type { RawConfig } from '../config/text.js'

/** What is known before anything is started: settings, and which plugins run in which order. */
export interface Setup {
  config: ResolvedConfig
  /** svc.yaml in use, or null. */
  file: string | null
  /** What svc.yaml can say, by plugin. */
  owners: readonly ConfigOwner[]
  order: readonly Plugin[]
  off: readonly { plugin: Plugin, message: string }[]
  /** Every authority there is. */
  authorities: ReadonlySet<string>
  warnings: readonly string[]
}

/** The plugins of a home as its svc.yaml has them; no node has to run. */
export interface Installation {
  /** Absolute path of the svc.yaml in use, or null. */
  file: string | null
  raw: RawConfig
  /** Bundled ones first; `source` is `bundled`, or the module as svc.yaml names it. */
  plugins: (Plugin & { source: string })[]
  /** What svc.yaml can say, by plugin. */
  owners: ConfigOwner[]
  /** Every authority there is: the kernel's and those of the plugins. */
  authorities: string[]
  /** Modules that could not be imported, and why. */
  failures: { name: string, module: string, message: string }[]
}

export interface InstallationOptions {
  home: string
  configFlag?: string | undefined
  env: NodeJS.ProcessEnv
  bundled: readonly Plugin[]
}

/** Reads svc.yaml and imports what it names. Never throws for what is wrong there. */
export async function readInstallation (options: InstallationOptions): Promise<Installation> {
  const { home, env, configFlag } = options
  const file = findConfig({ flag: configFlag, env, home })
  const raw = readConfigFile(file)
  const plugins: Installation['plugins'] = options.bundled.map((plugin) => ({ ...plugin, source: 'bundled' }))
  const failures: Installation['failures'] = []
  for (const module of pluginModules(raw)) {
    try {
      plugins.push({ ...await loadThirdParty(module), source: module.module })
    } catch (error) {
      failures.push({ name: module.name, module: module.module, message: (error as Error).message })
    }
  }
  return {
    file, raw, plugins, failures,
    owners: plugins.map(({ manifest, source }) => ownerOf(manifest, source === 'bundled')),
    authorities: [kernelManifest, ...plugins.map(({ manifest }) => manifest)]
      .flatMap((manifest: Manifest) => Object.keys(manifest.authorities ?? {}))
  }
}

export interface LoadOptions extends InstallationOptions { flags: Record<string, unknown> }

/** Reads the settings, loads third-party plugins and arranges all. Throws BootError with every problem. */
export async function loadPlugins (options: LoadOptions): Promise<Setup> {
  const { home, env, flags } = options
  const { file, raw, plugins, owners, authorities, failures } = await readInstallation(options)
  const manifests = plugins.map((p) => p.manifest)
  const { config, problems: mistakes, warnings } = resolveConfig(raw, { owners, env, flags, authorities })
  const disabled = new Set(manifests.map((m) => m.name).filter((name) => !config.enabled(name)))
  const graph = arrange({ manifests, disabled, demanded: demandedIn(raw) })
  const all = [
    ...lines(mistakes, home),
    ...failures.map(({ name, module, message }) =>
      `plugins.${name}.module: cannot load ${module}: ${message.split('\n')[0]!}`),
    ...checkManifests(manifests), ...graph.problems,
    ...plugins.flatMap(({ manifest, source }) => source === 'bundled' ? [] : schemaFaults(manifest))
  ]
  if (all.length > 0) throw new BootError(all)
  const byName = new Map(plugins.map((p) => [p.manifest.name, p]))
  return {
    config,
    file,
    owners,
    order: graph.order.map((name) => byName.get(name)!),
    off: [
      ...[...disabled].map((name) => ({ plugin: byName.get(name)!, message: disabledMessage(name) })),
      ...graph.down.map(({ plugin, message }) => ({ plugin: byName.get(plugin)!, message }))
    ],
    authorities: new Set(authorities),
    warnings: [...lines(warnings, home), ...graph.down.map((d) => d.message)]
  }
}

/**
 * Schemas that cannot be compiled. They are compiled when a request needs them; those that ship are proven by
 * the tests, those of others here, so that the fault is told at the start.
 */
export function schemaFaults ({ name, routes = {}, capabilities = {} }: Manifest): string[] {
  const parts = ['params', 'query', 'body'] as const
  const ofRoutes = Object.entries(routes).flatMap(([route, decl]) => parts.flatMap((part) => {
    try {
      if (decl[part] !== undefined) (part === 'body' ? compileStrict : compileText)(decl[part])
      return []
    } catch (error) {
      return [`plugin "${name}", route "${route}", ${part}: ${(error as Error).message}`]
    }
  }))
  return [...ofRoutes, ...Object.values(capabilities).flatMap((decl) => capabilityProblems(name, decl))]
}

const disabledMessage = (name: string): string =>
  `The plugin "${name}" is disabled; \`svc plugin enable ${name}\` and a restart bring it back.`

const lines = (problems: Parameters<typeof formatProblems>[0], folder: string): string[] =>
  formatProblems(problems, folder).split('\n').filter((line) => line !== '')

/** Plugins that svc.yaml switches on in so many words. */
function demandedIn (raw: RawConfig): ReadonlySet<string> {
  const plugins = (raw.value['plugins'] ?? {}) as Record<string, { enabled?: unknown } | null>
  return new Set(Object.entries(plugins).filter(([, slice]) => slice?.enabled === true).map(([name]) => name))
}

/**
 * Imports a plugin that svc.yaml names by `module`: a path relative to svc.yaml, or a package looked up from
 * its folder. Throws an Error with one sentence when it cannot be loaded or is no plugin of that name.
 */
async function loadThirdParty ({ path, module, resolvedFrom, name }: PluginModule): Promise<Plugin> {
  const found = path ?? createRequire(resolvedFrom).resolve(module)
  const untrusted = untrustedOwner(statSync(found).uid)
  if (untrusted !== null) throw new Error(`it ${untrusted}`)
  const { default: plugin } = await import(pathToFileURL(found).href) as { default?: Partial<Plugin> }
  if (typeof plugin?.manifest !== 'object' || typeof plugin.start !== 'function') {
    throw new Error('its default export is not what definePlugin returns')
  }
  if (plugin.manifest.name !== name) {
    throw new Error(`it calls itself "${plugin.manifest.name}"; use that name as the key`)
  }
  return plugin as Plugin
}

/** What a plugin's manifest says about settings. */
export function ownerOf ({ name, config, settings, variables }: Manifest, bundled: boolean): ConfigOwner {
  const given = Object.entries({ config, settings, variables }).filter(([, value]) => value !== undefined)
  return { name, bundled, ...Object.fromEntries(given) }
}
