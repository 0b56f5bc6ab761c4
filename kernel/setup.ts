import { BootError } from './boot-error.js'
import { findConfig, formatProblems, pluginModules, readConfigFile, resolveConfig } from './config/index.js'
import { arrange } from './graph.js'
import { loadGuest } from './guests.js'
import { authorities as kernelAuthorities } from './kernel-manifest.js'
import { checkManifests } from './registry.js'
import type { ConfigOwner, RawConfig, ResolvedConfig } from './config/index.js'
import type { Plugin } from './define.js'

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

export interface SetupOptions {
  home: string
  configFlag?: string
  flags: Record<string, unknown>
  env: NodeJS.ProcessEnv
  bundled: readonly Plugin[]
}

/** Reads the settings, loads third-party plugins and arranges all. Throws BootError with every problem. */
export async function prepare (options: SetupOptions): Promise<Setup> {
  const { home, env, configFlag } = options
  const file = findConfig({ home, env, ...(configFlag === undefined ? {} : { flag: configFlag }) })
  const raw = readConfigFile(file)
  const { plugins: guests, problems } = await loadModules(raw)
  const plugins = [...options.bundled, ...guests]
  const describes = [...owners(options.bundled, true), ...owners(guests, false)]
  const { config, problems: mistakes, warnings } = resolveConfig(raw, {
    owners: describes, env, flags: options.flags, authorities: [...authoritiesOf(plugins)]
  })
  const manifests = plugins.map((p) => p.manifest)
  const disabled = new Set(manifests.map((m) => m.name).filter((name) => !config.enabled(name)))
  const graph = arrange({ manifests, disabled, demanded: demandedIn(raw) })
  const all = [...lines(mistakes, home), ...problems, ...checkManifests(manifests), ...graph.problems]
  if (all.length > 0) throw new BootError(all)
  const byName = new Map(plugins.map((p) => [p.manifest.name, p]))
  return {
    config,
    file,
    owners: describes,
    order: graph.order.map((name) => byName.get(name)!),
    off: [
      ...[...disabled].map((name) => ({ plugin: byName.get(name)!, message: disabledMessage(name) })),
      ...graph.down.map(({ plugin, message }) => ({ plugin: byName.get(plugin)!, message }))
    ],
    authorities: authoritiesOf(plugins),
    warnings: [...lines(warnings, home), ...graph.down.map((d) => d.message)]
  }
}

const authoritiesOf = (plugins: readonly Plugin[]): ReadonlySet<string> => new Set([
  ...Object.keys(kernelAuthorities), ...plugins.flatMap((p) => Object.keys(p.manifest.authorities ?? {}))
])

const disabledMessage = (name: string): string =>
  `The plugin "${name}" is disabled; \`svc plugin enable ${name}\` and a restart bring it back.`

const lines = (problems: Parameters<typeof formatProblems>[0], folder: string): string[] =>
  formatProblems(problems, folder).split('\n').filter((line) => line !== '')

function owners (plugins: readonly Plugin[], bundled: boolean): ConfigOwner[] {
  return plugins.map(({ manifest: { name, config, settings } }) => ({
    name,
    bundled,
    ...(config === undefined ? {} : { config }),
    ...(settings === undefined ? {} : { settings })
  }))
}

/** Plugins that svc.yaml switches on in so many words. */
function demandedIn (raw: RawConfig): ReadonlySet<string> {
  const plugins = (raw.value['plugins'] ?? {}) as Record<string, { enabled?: unknown } | null>
  return new Set(Object.entries(plugins).filter(([, slice]) => slice?.enabled === true).map(([name]) => name))
}

/** Imports the modules that svc.yaml names; one that is not a plugin is a problem, not a crash. */
async function loadModules (raw: RawConfig): Promise<{ plugins: Plugin[], problems: string[] }> {
  const plugins: Plugin[] = []
  const problems: string[] = []
  for (const guest of pluginModules(raw)) {
    try {
      plugins.push(await loadGuest(guest))
    } catch (error) {
      const [first] = (error as Error).message.split('\n')
      problems.push(`plugins.${guest.name}.module: cannot load ${guest.module}: ${first ?? ''}`)
    }
  }
  return { plugins, problems }
}
