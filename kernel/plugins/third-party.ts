import { statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { untrustedOwner } from '../config/file.js'
import type { PluginModule } from '../config/file.js'
import type { Plugin } from '../api/plugin.js'

/**
 * Imports a plugin that svc.yaml names by `module`: a path relative to svc.yaml, or a package looked up from
 * its folder. Throws an Error with one sentence when it cannot be loaded or is no plugin of that name.
 */
export async function loadThirdParty ({ path, module, resolvedFrom, name }: PluginModule): Promise<Plugin> {
  const found = path ?? createRequire(resolvedFrom).resolve(module)
  const stranger = untrustedOwner(statSync(found).uid)
  if (stranger !== null) throw new Error(`it ${stranger}`)
  const { default: plugin } = await import(pathToFileURL(found).href) as { default?: Partial<Plugin> }
  if (typeof plugin?.manifest !== 'object' || typeof plugin.start !== 'function') {
    throw new Error('its default export is not what definePlugin returns')
  }
  if (plugin.manifest.name !== name) {
    throw new Error(`it calls itself "${plugin.manifest.name}"; use that name as the key`)
  }
  return plugin as Plugin
}
