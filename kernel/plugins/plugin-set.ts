import type { Manifest, Plugin } from '../api/plugin.js'

/** A plugin that is off, and why. */
export interface OffPlugin { readonly plugin: Plugin, readonly message: string }

/** Which plugins are on and off now. Each list is replaced whole, so that a reader sees one moment. */
export class PluginSet {
  #on: readonly Plugin[] = []
  #off: readonly OffPlugin[] = []
  #manifests: readonly Manifest[] = []

  constructor (on: readonly Plugin[], off: readonly OffPlugin[]) { this.change(on, off) }

  get on (): readonly Plugin[] { return this.#on }
  get off (): readonly OffPlugin[] { return this.#off }

  /** Of the plugins that are on; another list after every change. */
  get manifests (): readonly Manifest[] { return this.#manifests }

  change (on: readonly Plugin[], off: readonly OffPlugin[]): void {
    this.#on = on
    this.#off = off
    this.#manifests = on.map(({ manifest }) => manifest)
  }
}
