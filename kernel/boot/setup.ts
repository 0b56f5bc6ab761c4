import { compileStrict, compileText } from '../api/validate.js'
import { BootError } from './boot-error.js'
import { findConfig, pluginModules, readConfigFile } from '../config/file.js'
import { formatProblems } from '../config/problems.js'
import { resolveConfig } from '../config/resolve.js'
import { arrange } from '../plugins/graph.js'
import { loadThirdParty } from '../plugins/third-party.js'
import { authoritiesOf, ownerOf } from '../plugins/owners.js'
import { checkManifests } from '../plugins/registry.js'
import type { ConfigOwner } from '../config/known.js'
import type { ResolvedConfig } from '../config/resolve.js'
import type { RawConfig } from '../config/text.js'
import type { Manifest, Plugin } from '../api/plugin.js'

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
  const { plugins: thirdParty, problems } = await loadModules(raw)
  const plugins = [...options.bundled, ...thirdParty]
  const manifests = plugins.map((p) => p.manifest)
  const authorities = authoritiesOf(manifests)
  const owners = [
    ...options.bundled.map((p) => ownerOf(p.manifest, true)),
    ...thirdParty.map((p) => ownerOf(p.manifest, false))
  ]
  const { config, problems: mistakes, warnings } = resolveConfig(raw, {
    owners, env, flags: options.flags, authorities
  })
  const disabled = new Set(manifests.map((m) => m.name).filter((name) => !config.enabled(name)))
  const graph = arrange({ manifests, disabled, demanded: demandedIn(raw) })
  const all = [...lines(mistakes, home), ...problems, ...checkManifests(manifests), ...graph.problems,
    ...thirdParty.flatMap(({ manifest }) => schemaFaults(manifest))]
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
 * Schemas of routes that cannot be compiled. They are compiled when a request needs them; those that ship are
 * proven by the tests, those of others here, so that the fault is told at the start.
 */
function schemaFaults ({ name, routes = {} }: Manifest): string[] {
  const parts = ['params', 'query', 'body'] as const
  return Object.entries(routes).flatMap(([route, decl]) => parts.flatMap((part) => {
    try {
      if (decl[part] !== undefined) (part === 'body' ? compileStrict : compileText)(decl[part])
      return []
    } catch (error) {
      return [`plugin "${name}", route "${route}", ${part}: ${(error as Error).message}`]
    }
  }))
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

/** Imports the modules that svc.yaml names; one that is not a plugin is a problem, not a crash. */
async function loadModules (raw: RawConfig): Promise<{ plugins: Plugin[], problems: string[] }> {
  const plugins: Plugin[] = []
  const problems: string[] = []
  for (const module of pluginModules(raw)) {
    try {
      plugins.push(await loadThirdParty(module))
    } catch (error) {
      const [first] = (error as Error).message.split('\n')
      problems.push(`plugins.${module.name}.module: cannot load ${module.module}: ${first ?? ''}`)
    }
  }
  return { plugins, problems }
}
