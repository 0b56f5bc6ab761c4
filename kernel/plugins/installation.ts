import { statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { findConfig, pluginModules, readConfigFile, untrustedOwner } from '../config/file.js'
import { kernelManifest } from './kernel-manifest.js'
import type { Manifest, Plugin } from '../api/plugin.js'
import type { PluginModule } from '../config/file.js'
import type { ConfigOwner } from '../config/known.js'
import type { RawConfig } from '../config/text.js'

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
