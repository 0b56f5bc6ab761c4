import type { ModelCard, NodeView, Section } from '../../../kernel/index.js'
import { copiesByModel } from '../cli/api.js'
import type { StagingContext } from '../manifest.js'
import type { ProgressGossip } from '../peers/progress-gossip.js'
import type { CardOrigin } from '../service.js'
import type { LocalCopies } from '../staged/local-copies.js'
import type { ClusterCopy, LocalCopy, StoreEntryFact } from '../types.js'

type CopyFact = Omit<ClusterCopy, 'nodeId' | 'nodeName' | 'live'>

export class Catalogue {
  readonly #ctx: Pick<StagingContext, 'deps' | 'sections'>
  readonly #local: LocalCopies
  readonly #gossip: Pick<ProgressGossip, 'receiving'>

  constructor (
    ctx: Pick<StagingContext, 'deps' | 'sections'>, local: LocalCopies,
    gossip: Pick<ProgressGossip, 'receiving'>
  ) {
    this.#ctx = ctx
    this.#local = local
    this.#gossip = gossip
  }

  /** All cards by model id. Cards that are added later replace earlier ones of the same model. */
  cards (): Map<string, { card: ModelCard, origin: CardOrigin }> {
    const { storeModels, customCards } = this.#ctx.sections
    const own = this.#local.all()
    const cards = new Map<string, { card: ModelCard, origin: CardOrigin }>()
    const add = (origin: CardOrigin, card: ModelCard): void => { cards.set(card.modelId, { card, origin }) }
    for (const { value } of storeModels.entries()) add('store', value.card)
    for (const { kind, card } of own) if (kind === 'bundled') add('bundled', card)
    for (const { kind, card } of own) if (kind !== 'bundled') add('staged', card)
    for (const { value } of customCards.entries()) add('custom', value)
    return cards
  }

  /** Unlike `cards`, prefers the card of a local copy, because runners load that copy. */
  card (modelId: string): ModelCard | undefined {
    const own = this.#local.get(modelId)?.card ?? this.byHand(modelId)
    if (own !== undefined) return own
    const { deps: { cluster }, sections: { storeModels } } = this.#ctx
    // Looks up each node, as lists call this for every model.
    const said = cluster.nodes().map(({ nodeId }) => storeModels.get(modelId, nodeId))
    return said.findLast((value) => value !== undefined)?.card
  }

  /** The card of a model that was added over the API. */
  byHand (modelId: string): ModelCard | undefined { return this.#ctx.sections.customCards.get(modelId) }

  copies (wanted?: string): ClusterCopy[] {
    const { deps: { cluster }, sections: { modelCopies, storeModels } } = this.#ctx
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
    for (const { nodeId, modelId, bytes } of this.#gossip.receiving()) {
      add(nodes.get(nodeId), { modelId, kind: 'receiving', sizeBytes: bytes, digest: '' })
    }
    return found
  }

  copiesByModel (): Map<string, ClusterCopy[]> { return copiesByModel(this.copies()) }

  ready (): Set<string> {
    const { deps: { cluster }, sections: { modelCopies } } = this.#ctx
    const live = new Set(cluster.nodes().filter((node) => node.live).map((node) => node.nodeId))
    const ready = [...modelCopies.entries()].filter(({ nodeId, value }) => value.ready && live.has(nodeId))
    return new Set(ready.map(({ key }) => key))
  }
}

/** Longest text in a shared card, in characters. */
const TEXT_CHARS = 200
/** Shared `support` fields, by which every node decides whether to refuse a request. */
const TOLD_SUPPORT = ['tools', 'images', 'chat_template']

/** File roles in shared cards; a model with such a file needs another driver of its engine. */
const TOLD_ROLES = ['vision_weights', 'assistant']

/** Shortens a card for other nodes: only the files that decide which driver it needs, and shorter texts. */
export function shortCard (card: ModelCard): ModelCard {
  const support = Object.fromEntries(TOLD_SUPPORT.filter((field) => Object.hasOwn(card.support, field))
    .map((field) => [field, card.support[field]!.slice(0, TEXT_CHARS)]))
  const files = card.files.filter(({ role }) => TOLD_ROLES.includes(role)).slice(0, TOLD_ROLES.length)
  return { ...card, files, support, description: card.description.slice(0, TEXT_CHARS) }
}

export function storeFact (
  { modelId, directory: _directory, kind, manifest, card, ...about }: LocalCopy
): [string, StoreEntryFact] {
  const { revision, totalBytes } = manifest
  return [modelId, { ...about, bundled: kind === 'bundled', revision, totalBytes, card: shortCard(card) }]
}

/** Replaces this node's entries of a section; returns the keys that did not fit. */
export function publishEntries<T> (
  section: Section<T>, nodeId: string, wanted: ReadonlyMap<string, T>
): string[] {
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
