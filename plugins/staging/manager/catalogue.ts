import type { Cluster, ModelCard, NodeView, Section } from '../../../kernel/index.js'
import { mergeCatalogue } from '../cards/index.js'
import type { LocalCopies, LocalCopy } from '../staged/local-copies.js'
import type { CardOrigin } from '../service.js'
import type { HubChoice } from '../types.js'

/** A copy somewhere in the cluster. */
export interface ClusterCopy {
  modelId: string
  nodeId: string
  nodeName: string
  kind: 'store' | 'bundled' | 'staged' | 'cache' | 'receiving'
  sizeBytes: number
  digest: string
  live: boolean
}

/** A copy, without where it is. */
type CopyFact = Omit<ClusterCopy, 'nodeId' | 'nodeName' | 'live'>

export interface CatalogueParts {
  cluster: Cluster
  local: LocalCopies
  sections: {
    modelCopies: Section<CopyEntry>
    storeModels: Section<StoreEntryFact>
    homeCards: Section<ModelCard>
    customCards: Section<ModelCard>
  }
  /** Transfers under way on any node. */
  receiving: () => Iterable<{ installId: string, modelId: string, bytes: number }>
}

/** What the whole cluster knows of models: cards, and where the copies are. */
export class Catalogue {
  readonly #parts: CatalogueParts

  constructor (parts: CatalogueParts) { this.#parts = parts }

  /** Every card by model id; what is said later in the list of origins counts. */
  cards (): Map<string, { card: ModelCard, origin: CardOrigin }> {
    const { local, sections: { storeModels, homeCards, customCards } } = this.#parts
    const own = local.all()
    const values = (section: Section<ModelCard>): ModelCard[] =>
      [...section.entries()].map(({ value }) => value)
    return mergeCatalogue([
      { origin: 'store', cards: [...storeModels.entries()].map(({ value }) => value.card) },
      { origin: 'bundled', cards: own.filter(({ kind }) => kind === 'bundled').map(({ card }) => card) },
      { origin: 'staged', cards: own.filter(({ kind }) => kind !== 'bundled').map(({ card }) => card) },
      { origin: 'home', cards: values(homeCards) },
      { origin: 'custom', cards: values(customCards) }
    ])
  }

  /** The card of one model, as `cards` has it, but for a copy that is here: that one is loaded by its own. */
  card (modelId: string): ModelCard | undefined {
    const { local, sections: { storeModels, homeCards, customCards } } = this.#parts
    return local.get(modelId)?.card ?? customCards.get(modelId) ?? this.#last(homeCards, modelId) ??
      this.#last(storeModels, modelId)?.card
  }

  /** Where the copies of one model, or of all, are. */
  copies (wanted?: string): ClusterCopy[] {
    const { cluster, sections: { modelCopies, storeModels }, receiving } = this.#parts
    const nodes = new Map(cluster.nodes().map((node) => [node.nodeId, node]))
    const found: ClusterCopy[] = []
    const add = (node: NodeView | undefined, copy: CopyFact): void => {
      if (node === undefined || (wanted !== undefined && copy.modelId !== wanted)) return
      found.push({ ...copy, nodeId: node.nodeId, nodeName: node.name, live: node.live })
    }
    for (const { nodeId, key, value } of storeModels.entries()) {
      const { totalBytes: sizeBytes, digest } = value
      add(nodes.get(nodeId), { modelId: key, kind: 'store', sizeBytes, digest })
    }
    for (const { nodeId, key, value: { kind, sizeBytes, digest } } of modelCopies.entries()) {
      add(nodes.get(nodeId), { modelId: key, kind, sizeBytes, digest })
    }
    for (const { installId, modelId, bytes } of receiving()) {
      const node = cluster.resolve(installId)
      add(node, { modelId, kind: 'receiving', sizeBytes: bytes, digest: '' })
    }
    return found
  }

  /** Where the copies of all models are, by model id. */
  copiesByModel (): Map<string, ClusterCopy[]> {
    const byModel = new Map<string, ClusterCopy[]>()
    for (const copy of this.copies()) {
      const known = byModel.get(copy.modelId)
      if (known === undefined) byModel.set(copy.modelId, [copy])
      else known.push(copy)
    }
    return byModel
  }

  /** Models that a runner somewhere in the cluster serves. */
  ready (): Set<string> {
    const { cluster, sections: { modelCopies } } = this.#parts
    const live = new Set(cluster.nodes().filter((node) => node.live).map((node) => node.nodeId))
    const ready = [...modelCopies.entries()].filter(({ nodeId, value }) => value.ready && live.has(nodeId))
    return new Set(ready.map(({ key }) => key))
  }

  /** What the last of the nodes says under a key. Asked for with each model of a list, so not by a scan. */
  #last<T> (section: Section<T>, key: string): T | undefined {
    const said = this.#parts.cluster.nodes().map(({ nodeId }) => section.get(key, nodeId))
    return said.findLast((value) => value !== undefined)
  }
}

/** What a node says of a copy it has (section `modelCopies`). */
export interface CopyEntry {
  kind: LocalCopy['kind']
  digest: string
  sizeBytes: number
  ready: boolean
}

/** What a store host says of a model in its store (section `storeModels`). */
export interface StoreEntryFact {
  digest: string
  revision: string
  totalBytes: number
  source: string
  choice?: HubChoice
  downloadedAt: string
  bundled: boolean
  /** Without its files. */
  card: ModelCard
}

/** Characters of a description that other nodes are told. */
const DESCRIPTION_CHARS = 200

/**
 * A card as other nodes are told, without what may be long: thousands of files, and texts for people. It goes
 * to every node; the whole one is read where it is.
 */
export function shortCard (card: ModelCard): ModelCard {
  return { ...card, files: [], support: {}, description: card.description.slice(0, DESCRIPTION_CHARS) }
}

/**
 * Makes this node's entries of a section exactly these; what is equal is not written. Returns what could not
 * be told, because the document would be too large.
 */
export function tell<T> (section: Section<T>, nodeId: string, wanted: ReadonlyMap<string, T>): string[] {
  const left: string[] = []
  const own = [...section.entries()].filter((entry) => entry.nodeId === nodeId)
  for (const { key } of own) if (!wanted.has(key)) section.remove(key)
  for (const [key, value] of wanted) {
    if (JSON.stringify(section.get(key)) === JSON.stringify(value)) continue
    try {
      section.put(key, value)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      left.push(key)
    }
  }
  return left
}
