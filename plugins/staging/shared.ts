import type { ModelCard, Section } from '../../kernel/index.js'
import type { LocalCopy } from './local-copies.js'
import type { HubChoice } from './types.js'

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
