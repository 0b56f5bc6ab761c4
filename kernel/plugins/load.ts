import { isClusterPlugin } from '../api/cluster.js'
import { BootError } from '../api/errors.js'
import { checkOf, compileStrict, compileText } from '../api/validate.js'
import { formatProblems } from '../config/problems.js'
import { resolveConfig, type ResolvedConfig } from '../config/resolve.js'
import { sortByDependency, type StartOrder } from './graph.js'
import { readInstallation, type Installation, type InstallationOptions } from './installation.js'
import { checkManifests } from './registry.js'
import type { ConfigOwner, Manifest, Plugin } from '../api/plugin.js'
import type { JsonSchema } from '../api/schema.js'
import type { RawConfig } from '../config/text.js'

export interface OffPlugin { readonly plugin: Plugin, readonly message: string }

/** svc.yaml and its plugins in start order, before any plugin has started. */
export interface Setup {
  config: ResolvedConfig
  file: string | null
  written: unknown
  owners: readonly ConfigOwner[]
  order: readonly Plugin[]
  off: readonly OffPlugin[]
  authorities: Set<string>
  warnings: readonly string[]
  /** Installed plugins whose files were changed, so they are off. */
  changed: Installation['changed']
  /** Plugins whose files differ from the code that this process runs. */
  stale: readonly string[]
}

export interface LoadOptions extends InstallationOptions { flags: Record<string, unknown> }

/** The current svc.yaml with its plugins. */
export type Loaded = Pick<Setup, 'order' | 'off' | 'config' | 'owners' | 'authorities' | 'changed' | 'stale'>

/** Reads settings, loads third-party plugins and orders all plugins. Throws BootError with every problem. */
export async function loadPlugins (options: LoadOptions): Promise<Setup> {
  const { home, env, flags } = options
  const installation = await readInstallation(options)
  const { file, raw, plugins, owners, authorities, changed, stale } = installation
  const { config, problems: mistakes, warnings } = resolveConfig(raw, { owners, env, flags, authorities })
  const reasons = new Map(changed.map(({ name, message }) => [name, message]))
  const disabled = new Set(plugins.map(({ manifest: { name } }) => name)
    .filter((name) => !config.enabled(name) || reasons.has(name)))
  const { graph, problems } = await arrangeAll(installation, disabled)
  const all = [...lines(mistakes, home), ...problems]
  if (all.length > 0) throw new BootError(all)
  const byName = new Map(plugins.map((p) => [p.manifest.name, p]))
  return {
    config,
    file,
    written: raw.value,
    owners,
    order: graph.order.map((name) => byName.get(name)!),
    off: [
      ...[...disabled].map((name) =>
        ({ plugin: byName.get(name)!, message: reasons.get(name) ?? disabledMessage(byName.get(name)!) })),
      ...graph.down.map(({ plugin, message }) => ({ plugin: byName.get(plugin)!, message }))
    ],
    authorities: new Set(authorities),
    changed, stale,
    warnings: [...lines(warnings, home), ...graph.down.map((d) => d.message)]
  }
}

/** Works out which plugins run with those in `disabled` off; collects all problems but those in settings. */
export async function arrangeAll (
  { raw, plugins, failures }: Installation, disabled: ReadonlySet<string>
): Promise<{ graph: StartOrder, problems: string[] }> {
  const manifests = plugins.map(({ manifest }) => manifest)
  const graph = sortByDependency({ manifests, disabled, demanded: demandedIn(raw) })
  // Bundled plugins are skipped, since tests check their declarations.
  const foreign = plugins.flatMap(({ manifest, source }) => source === 'bundled' ? [] : [manifest])
  const refused = await Promise.all(foreign.flatMap((manifest) =>
    plugins.map(async ({ refusals }) => await refusals?.(manifest) ?? [])))
  return {
    graph,
    problems: [
      ...failures.map(({ name, module, message }) =>
        `plugins.${name}.module: cannot load ${module}: ${message.split('\n')[0]!}`),
      ...checkManifests(manifests), ...graph.problems, ...foreign.flatMap(schemaFaults), ...refused.flat()
    ]
  }
}

/**
 * A plugin's schemas that fail to compile. Schemas compile on first use; tests cover those of bundled
 * plugins, so this check at startup is for third-party plugins.
 */
export function schemaFaults ({ name, routes = {}, capabilities = {} }: Manifest): string[] {
  const fault = (at: string, compile: (one: JsonSchema) => unknown, schema?: JsonSchema | null): string[] => {
    try {
      if (schema !== undefined && schema !== null) compile(schema)
      return []
    } catch (error) {
      return [`plugin "${name}", ${at} ${(error as Error).message}`]
    }
  }
  const ofRoutes = Object.entries(routes).flatMap(([route, decl]) => ROUTE_SCHEMAS.flatMap((part) =>
    fault(`route "${route}", ${part}:`, part === 'body' ? compileStrict : compileText, decl[part])))
  return [...ofRoutes, ...Object.values(capabilities).flatMap((decl) => CAPABILITY_SCHEMAS.flatMap((part) =>
    fault(`capability "${decl.id}@${decl.version}": ${part}`, checkOf, decl[part])))]
}

const ROUTE_SCHEMAS = ['params', 'query', 'body'] as const
const CAPABILITY_SCHEMAS =
  ['input_schema', 'input_bounds', 'output_schema', 'input_chunk_schema', 'output_chunk_schema'] as const

export const disabledMessage = (plugin: Plugin): string => {
  const { name } = plugin.manifest
  const back = isClusterPlugin(plugin) ? ' and a restart enable it.' : ' enables it.'
  return `The plugin "${name}" is disabled; \`svc plugin enable ${name}\`${back}`
}

const lines = (problems: Parameters<typeof formatProblems>[0], folder: string): string[] =>
  formatProblems(problems, folder).split('\n').filter((line) => line !== '')

function demandedIn (raw: RawConfig): ReadonlySet<string> {
  const plugins = (raw.value['plugins'] ?? {}) as Record<string, { enabled?: unknown } | null>
  return new Set(Object.entries(plugins).filter(([, slice]) => slice?.enabled === true).map(([name]) => name))
}
