import { kernelManifest } from './kernel-manifest.js'
import type { ConfigOwner } from '../config/known.js'
import type { Manifest } from '../api/plugin.js'

/** What a plugin's manifest says about settings. */
export function ownerOf ({ name, config, settings }: Manifest, bundled: boolean): ConfigOwner {
  return {
    name,
    bundled,
    ...(config === undefined ? {} : { config }),
    ...(settings === undefined ? {} : { settings })
  }
}

/** Every authority there is: the kernel's and those of the plugins. */
export function authoritiesOf (manifests: readonly Manifest[]): string[] {
  return [kernelManifest, ...manifests].flatMap((m: Manifest) => Object.keys(m.authorities ?? {}))
}
