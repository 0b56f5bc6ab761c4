import { createRequire } from 'node:module'
import { isAbsolute } from 'node:path'
import { pathToFileURL } from 'node:url'
import { BootError } from './boot-error.js'
import { findConfig, formatProblems, pluginModules, readConfigFile, resolveConfig } from './config/index.js'
import { arrange } from './graph.js'
import { authorities as kernelAuthorities } from './kernel-manifest.js'
import { checkManifests } from './registry.js'
import type { ConfigOwner, RawConfig, ResolvedConfig } from './config/index.js'
import type { Manifest, Plugin } from './define.js'

/** What is known before anything is started: settings, and which plugins run in which order. */
export interface Setup {
  config: ResolvedConfig
  /** svc.yaml in use, or null. */
  file: string | null
  order: readonly Plugin[]
  off: readonly { plugin: Plugin, message: string }[]
  /** Every authority there is. */
  authorities: ReadonlySet<string>
  warnings: readonly string[]
}

export interface SetupOptions {
  home: string
  configFlag?: string
  flags: Record<string, unknown>
  env: NodeJS.ProcessEnv
  bundled: readonly Plugin[]
}

/** Reads the settings, loads third-party plugins and arranges all. Throws BootError with every problem. */
export async function prepare (options: SetupOptions): Promise<Setup> {
  const file = findConfig({ env: options.env, home: options.home,
    ...(options.configFlag === undefined ? {} : { flag: options.configFlag }) })
  const raw = readConfigFile(file)
  const { plugins: guests, problems } = await loadModules(raw)
  const plugins = [...options.bundled, ...guests]
  const { config, problems: mistakes, warnings } = resolveConfig(raw, {
    owners: owners(options.bundled, true).concat(owners(guests, false)), env: options.env, flags: options.flags,
    authorities: [...authoritiesOf(plugins)]
  })
  const manifests = plugins.map((p) => p.manifest)
  const disabled = new Set(manifests.map((m) => m.name).filter((name) => !config.enabled(name)))
  const graph = arrange({ manifests, disabled, demanded: demandedIn(raw) })
  const all = [...lines(mistakes), ...problems, ...checkManifests(manifests), ...graph.problems]
  if (all.length > 0) throw new BootError(all)
  const byName = new Map(plugins.map((p) => [p.manifest.name, p]))
  return {
    config, file, order: graph.order.map((name) => byName.get(name)!),
    off: [...[...disabled].map((name) => ({ plugin: byName.get(name)!, message: disabledMessage(name) })),
      ...graph.down.map(({ plugin, message }) => ({ plugin: byName.get(plugin)!, message }))],
    authorities: authoritiesOf(plugins),
    warnings: [...lines(warnings), ...graph.down.map((d) => d.message)]
  }
}

const authoritiesOf = (plugins: readonly Plugin[]): ReadonlySet<string> => new Set([
  ...Object.keys(kernelAuthorities), ...plugins.flatMap((p) => Object.keys(p.manifest.authorities ?? {}))])

const disabledMessage = (name: string): string =>
  `The plugin "${name}" is disabled; \`svc plugin enable ${name}\` and a restart bring it back.`

const lines = (problems: Parameters<typeof formatProblems>[0]): string[] =>
  formatProblems(problems).split('\n').filter((line) => line !== '')

function owners (plugins: readonly Plugin[], bundled: boolean): ConfigOwner[] {
  return plugins.map(({ manifest: { name, config, settings } }) => ({
    name, bundled, ...(config === undefined ? {} : { config }), ...(settings === undefined ? {} : { settings })
  }))
}

/** Plugins that svc.yaml switches on in so many words. */
function demandedIn (raw: RawConfig): ReadonlySet<string> {
  const plugins = (raw.value['plugins'] ?? {}) as Record<string, { enabled?: unknown } | null>
  return new Set(Object.entries(plugins).filter(([, slice]) => slice?.enabled === true).map(([name]) => name))
}

/** Imports the modules that svc.yaml names; a module that is not a plugin is a problem, not a crash. */
async function loadModules (raw: RawConfig): Promise<{ plugins: Plugin[], problems: string[] }> {
  const plugins: Plugin[] = []
  const problems: string[] = []
  for (const { name, module, resolvedFrom } of pluginModules(raw)) {
    try {
      const loaded = (await import(specifier(module, resolvedFrom)) as { default?: unknown }).default
      const plugin = asPlugin(loaded)
      if (plugin === undefined) problems.push(`plugins.${name}.module: ${module} has no plugin as its default export`)
      else if (plugin.manifest.name !== name) {
        problems.push(`plugins.${name}.module: ${module} is the plugin "${plugin.manifest.name}"; use that name as the key`)
      } else plugins.push(plugin)
    } catch (error) {
      problems.push(`plugins.${name}.module: cannot load ${module}: ${(error as Error).message.split('\n')[0] ?? ''}`)
    }
  }
  return { plugins, problems }
}

/** A path stays a path; a package name is looked up from the folder of svc.yaml. */
function specifier (module: string, from: string): string {
  if (isAbsolute(module)) return pathToFileURL(module).href
  const require = createRequire(from.startsWith('file:') ? from : pathToFileURL(from))
  return pathToFileURL(require.resolve(module)).href
}

function asPlugin (value: unknown): Plugin | undefined {
  const { manifest, start } = (value ?? {}) as { manifest?: Manifest, start?: unknown }
  return typeof manifest === 'object' && typeof start === 'function' ? value as Plugin : undefined
}
