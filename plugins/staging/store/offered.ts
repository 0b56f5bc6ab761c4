import type { LocalCopies, LocalCopy } from '../staged/local-copies.js'
import { shortCard } from '../manager/catalogue.js'
import type { Store } from './store.js'
import type { StoreEntry } from './types.js'
import type { StoreEntryFact } from '../types.js'

/** What a store host offers: the store's entries, and what ships; of one name the pulled one. */
export class OfferedModels {
  readonly #store: Store
  readonly #local: LocalCopies
  readonly #since: string

  /** `since`: ISO-8601, the time at which what ships came to be here. */
  constructor (store: Store, local: LocalCopies, since: string) {
    this.#store = store
    this.#local = local
    this.#since = since
  }

  get (modelId: string): StoreEntry | undefined {
    const copy = this.#local.of('bundled', modelId)
    return this.#store.get(modelId) ?? (copy === undefined ? undefined : this.#shipped(copy))
  }

  items (): StoreEntry[] {
    const all = [...this.#local.bundled().map((copy) => this.#shipped(copy)), ...this.#store.entries()]
    return [...new Map(all.map((item) => [item.modelId, item])).values()]
  }

  /** What the other nodes are told, by model id. */
  facts (): Map<string, StoreEntryFact> {
    return new Map(this.items().map(({ modelId, directory: _directory, manifest, card, ...more }) => {
      const { revision, totalBytes } = manifest
      return [modelId, { ...more, revision, totalBytes, card: shortCard(card) }]
    }))
  }

  #shipped ({ card, directory, manifest, digest }: LocalCopy): StoreEntry {
    const { modelId } = card
    const [source, downloadedAt] = ['package', this.#since]
    return { modelId, directory, manifest, digest, card, source, downloadedAt, bundled: true }
  }
}
