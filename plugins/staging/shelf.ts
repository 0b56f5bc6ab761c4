import type { ModelCard } from '../../kernel/index.js'
import { manifestDigest } from './files/index.js'
import type { LocalCopies } from './local-copies.js'
import { shortCard } from './shared.js'
import type { StoreEntryFact } from './shared.js'
import type { Store } from './store/index.js'
import type { ModelManifest } from './types.js'

/** A model that this node, a store host, gives to others. */
export interface ShelfItem {
  modelId: string
  directory: string
  manifest: ModelManifest
  digest: string
  card: ModelCard
  source: string
  downloadedAt: string
  /** It ships with a package and is given from there. */
  bundled: boolean
}

/** What a store host has: the store's entries, and what ships. A model pulled under a shipped name counts. */
export class Shelf {
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

  get (modelId: string): ShelfItem | undefined {
    return this.items().find((item) => item.modelId === modelId)
  }

  items (): ShelfItem[] {
    const shipped = this.#local.bundled().map(({ card, directory, manifest, digest }): ShelfItem => ({
      modelId: card.modelId, directory, manifest, digest, card, source: 'package', downloadedAt: this.#since,
      bundled: true
    }))
    const stored = this.#store.entries().map(({ modelId, directory, record, downloadedAt }): ShelfItem => ({
      modelId, directory, downloadedAt, manifest: record.manifest, digest: this.#digest(record.manifest),
      card: record.card, source: record.source, bundled: false
    }))
    return [...new Map([...shipped, ...stored].map((item) => [item.modelId, item])).values()]
  }

  /** What the other nodes are told. */
  facts (): Map<string, StoreEntryFact> {
    return new Map(this.items().map((item) => {
      const { modelId, digest, manifest: { revision, totalBytes }, source, downloadedAt, bundled } = item
      const card = shortCard(item.card)
      return [modelId, { digest, revision, totalBytes, source, downloadedAt, bundled, card }]
    }))
  }

  #digest (manifest: ModelManifest): string {
    const known = this.#digests.get(manifest) ?? manifestDigest(manifest)
    this.#digests.set(manifest, known)
    return known
  }
}
