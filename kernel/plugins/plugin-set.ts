import type { Manifest, Plugin } from '../api/plugin.js'

export interface OffPlugin { readonly plugin: Plugin, readonly message: string }

/**
 * The plugins that are on and off. Lists are replaced, never changed, so that readers see a consistent state.
 */
export class PluginSet {
  #on: readonly Plugin[] = []
  #off: readonly OffPlugin[] = []
  #manifests: readonly Manifest[] = []

  constructor (on: readonly Plugin[], off: readonly OffPlugin[]) { this.change(on, off) }

  get on (): readonly Plugin[] { return this.#on }
  get off (): readonly OffPlugin[] { return this.#off }

  /** Manifests of the plugins that are on; a new list after every change. */
  get manifests (): readonly Manifest[] { return this.#manifests }

  change (on: readonly Plugin[], off: readonly OffPlugin[]): void {
    this.#on = on
    this.#off = off
    this.#manifests = on.map(({ manifest }) => manifest)
  }
}
