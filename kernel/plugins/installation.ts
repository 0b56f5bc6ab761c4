import { statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { findConfig, pluginModules, readConfigFile, untrustedOwner } from '../config/file.js'
import { kernelManifest } from './kernel-manifest.js'
import { faultOf, folderOf, linkSvc, readRecord } from './packages.js'
import type { ConfigOwner, Manifest, Plugin } from '../api/plugin.js'
import type { PluginModule } from '../config/file.js'
import type { RawConfig } from '../config/text.js'

/** The plugins of a home folder, as its svc.yaml lists them; reading them requires no running node. */
export interface Installation {
  /** Absolute path of the svc.yaml in use, or null. */
  file: string | null
  raw: RawConfig
  /** Bundled plugins first; `source` is `bundled` or the module in svc.yaml. */
  plugins: (Plugin & { source: string })[]
  /** The plugins' settings, needed to parse svc.yaml. */
  owners: ConfigOwner[]
  /** All authorities: the kernel's and those of the plugins. */
  authorities: string[]
  /** Installed plugins whose files have changed since they were accepted; they are not loaded. */
  changed: { name: string, file: string, message: string }[]
  /** Plugins whose files have changed since this process loaded them; the process keeps the old code. */
  stale: string[]
  /** Modules that could not be imported, each with the reason. */
  failures: { name: string, module: string, message: string }[]
}

export interface InstallationOptions {
  home: string
  configFlag?: string | undefined
  env: NodeJS.ProcessEnv
  bundled: readonly Plugin[]
}

/** Reads svc.yaml and imports the plugins it names. Faults in either are returned, never thrown. */
export async function readInstallation (options: InstallationOptions): Promise<Installation> {
  const { home, env, configFlag } = options
  const file = findConfig({ flag: configFlag, env, home })
  const raw = readConfigFile(file)
  const plugins: Installation['plugins'] = options.bundled.map((plugin) => ({ ...plugin, source: 'bundled' }))
  const failures: Installation['failures'] = []
  const changed: Installation['changed'] = []
  const stale: string[] = []
  for (const module of pluginModules(raw)) {
    try {
      const installed = module.path === null ? undefined : folderOf(home, module.path)
      const standIn = installed === undefined ? undefined : standInFor(home, installed, module, changed)
      plugins.push({ ...standIn ?? await loadThirdParty(module, stale), source: module.module })
    } catch (error) {
      failures.push({ name: module.name, module: module.module, message: (error as Error).message })
    }
  }
  return {
    file, raw, plugins, failures, changed, stale,
    owners: plugins.map(({ manifest, source }) => ownerOf(manifest, source === 'bundled')),
    authorities: [kernelManifest, ...plugins.map(({ manifest }) => manifest)]
      .flatMap((manifest: Manifest) => Object.keys(manifest.authorities ?? {}))
  }
}

/** Modification time and size of each loaded module, to detect changes, since Node never reloads a module. */
const stamps = new Map<string, string>()

/**
 * Imports a plugin by `module`: a path relative to svc.yaml, or a package resolved from svc.yaml's folder.
 * Throws an Error with one sentence if that fails or the plugin has another name.
 */
async function loadThirdParty (
  { path, module, resolvedFrom, name }: PluginModule, stale: string[]
): Promise<Plugin> {
  const found = path ?? createRequire(resolvedFrom).resolve(module)
  for (const part of [found, dirname(found)]) refuseUntrusted(part)
  const { mtimeMs, size } = statSync(found)
  const stamp = `${mtimeMs} ${size}`
  if ((stamps.get(found) ?? stamp) !== stamp) stale.push(name)
  else stamps.set(found, stamp)
  const { default: plugin } = await import(pathToFileURL(found).href) as { default?: Partial<Plugin> }
  if (typeof plugin?.manifest !== 'object' || typeof plugin.start !== 'function') {
    throw new Error('its default export is not the result of definePlugin')
  }
  if (plugin.manifest.name !== name) {
    throw new Error(`its name is "${plugin.manifest.name}"; use that name as the key`)
  }
  // Leaves out `open`, since only a bundled plugin may open the cluster.
  const { manifest, start } = plugin
  return { manifest, start }
}

/** Throws unless the path belongs to this user or root and only its owner may write to it. */
function refuseUntrusted (path: string): void {
  const { uid, mode } = statSync(path)
  const untrusted = untrustedOwner(uid)
  if (untrusted !== null) throw new Error(`it ${untrusted}`)
  if ((mode & 0o022) === 0) return
  throw new Error(`${path} may be written by group or others; run: chmod go-w '${path}'`)
}

/**
 * For a changed plugin, a stand-in with the accepted manifest that refuses to start; undefined if unchanged.
 * Throws for a plugin that was never accepted.
 */
function standInFor (
  home: string, folder: string, { name }: PluginModule, changed: Installation['changed']
): Plugin | undefined {
  const record = readRecord(home, folder)
  if (record === undefined) throw new Error('it was not installed by `svc plugin install`')
  if (record.name !== name) throw new Error(`it is the plugin "${record.name}"; use that name as the key`)
  const fault = faultOf(home, folder, record)
  if (fault === null) {
    linkSvc(home)
    return undefined
  }
  const message = `The plugin "${name}" is not started: ${fault.message} in ${folder} since it was ` +
    'installed; fix it with `svc plugin install` of a good copy.'
  changed.push({ name, file: fault.file, message })
  return { manifest: record.manifest, start: () => { throw new Error(message) } }
}

export function ownerOf ({ name, config, settings, variables }: Manifest, bundled: boolean): ConfigOwner {
  const given = Object.entries({ config, settings, variables }).filter(([, value]) => value !== undefined)
  return { name, bundled, ...Object.fromEntries(given) }
}
