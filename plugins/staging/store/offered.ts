import type { ModelCard } from '../../../kernel/index.js'
import { manifestDigest } from '../files/record.js'
import type { LocalCopies, LocalCopy } from '../staged/local-copies.js'
import { shortCard } from '../manager/catalogue.js'
import type { StoreEntryFact } from '../manager/catalogue.js'
import type { Store } from './store.js'
import type { StoreEntry } from './types.js'
import type { HubChoice, ModelManifest } from '../types.js'

/** A model that this node, a store host, gives to others. */
export interface OfferedModel {
  modelId: string
  directory: string
  manifest: ModelManifest
  digest: string
  card: ModelCard
  source: string
  choice?: HubChoice
  downloadedAt: string
  /** It ships with a package and is given from there. */
  bundled: boolean
}

/** What a store host has: the store's entries, and what ships. A model pulled under a shipped name counts. */
export class OfferedModels {
  readonly #store: Store
  readonly #local: LocalCopies
  readonly #since: string
  /** Digests by manifest: they are asked for at every change. */
  readonly #digests = new WeakMap<ModelManifest, string>()

  /** `since`: ISO-8601, the time at which what ships came to be here. */
  constructor (store: Store, local: LocalCopies, since: string) {
    this.#store = store
    this.#local = local
    this.#since = since
  }

  get (modelId: string): OfferedModel | undefined {
    const entry = this.#store.get(modelId)
    if (entry !== undefined) return this.#stored(entry)
    const copy = this.#local.of('bundled', modelId)
    return copy === undefined ? undefined : this.#shipped(copy)
  }

  items (): OfferedModel[] {
    const shipped = this.#local.bundled().map((copy) => this.#shipped(copy))
    const stored = this.#store.entries().map((entry) => this.#stored(entry))
    return [...new Map([...shipped, ...stored].map((item) => [item.modelId, item])).values()]
  }

  #shipped ({ card, directory, manifest, digest }: LocalCopy): OfferedModel {
    return {
      modelId: card.modelId, directory, manifest, digest, card, source: 'package', downloadedAt: this.#since,
      bundled: true
    }
  }

  #stored ({ modelId, directory, record, downloadedAt }: StoreEntry): OfferedModel {
    const { manifest, card, source, choice } = record
    const digest = this.#digest(manifest)
    return {
      modelId, directory, manifest, digest, card, source, downloadedAt, bundled: false,
      ...choice === undefined ? {} : { choice }
    }
  }

  /** What the other nodes are told. */
  facts (): Map<string, StoreEntryFact> {
    return new Map(this.items().map((item) => {
      const { modelId, digest, manifest, source, choice, downloadedAt, bundled } = item
      const { revision, totalBytes } = manifest
      const card = shortCard(item.card)
      const fact = { digest, revision, totalBytes, source, downloadedAt, bundled, card }
      return [modelId, { ...fact, ...choice === undefined ? {} : { choice } }]
    }))
  }

  #digest (manifest: ModelManifest): string {
    const known = this.#digests.get(manifest) ?? manifestDigest(manifest)
    this.#digests.set(manifest, known)
    return known
  }
}
