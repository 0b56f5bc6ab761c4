/** The catalogue: the cards a node knows, and how the model list shows them. */
import type { ModelCard } from '../../../kernel/index.js'
import type { Judgement } from '../service.js'

/** Where a card comes from. */
export type CardOrigin = 'bundled' | 'store' | 'staged' | 'home' | 'custom'

/** A card of the catalogue. */
export interface CatalogueEntry { card: ModelCard, origin: CardOrigin }

/** Cards by model id; of several with one id, that of the later source counts. */
export function mergeCatalogue (
  sources: ReadonlyArray<{ origin: CardOrigin, cards: readonly ModelCard[] }>
): Map<string, CatalogueEntry> {
  const entries = sources.flatMap(({ origin, cards }) =>
    cards.map((card): [string, CatalogueEntry] => [card.modelId, { card, origin }]))
  return new Map(entries)
}

/** What is known about a model beside its card. `created` is in unix seconds. */
export interface ModelPresence {
  installed: boolean
  ready: boolean
  created: number
  /** Left out where nobody judges. */
  judgement?: Judgement | undefined
}

/** An entry of `GET /v1/models`. */
export interface ModelListEntry {
  id: string
  object: 'model'
  created: number
  owned_by: 'svc'
  name: string
  description: string
  context_length: number
  tags: string[]
  tasks: string[]
  storage_size_megabytes: number
  supports_tensor: boolean
  family: string
  quantization: string | null
  capabilities: string[]
  resolved_capabilities: ResolvedCapabilities
  audio: AudioFacts | null
  installed: boolean
  ready: boolean
  /** Whether it can be asked; null where no plugin runs models. */
  available: boolean | null
  /** The first broken link of its availability chain. */
  broken_link: string | null
  remedy: string | null
}

/** What a request to the model may ask for. */
export interface ResolvedCapabilities {
  chat: boolean
  completions: boolean
  embeddings: boolean
  tts: boolean
  /** Answers come in pieces while they are made. */
  streaming: boolean
  /** Tools are shown to the model. */
  tools: boolean
  vision: boolean
}

/** Voices of a speech model. */
export interface AudioFacts {
  voices: ModelCard['voices']
  default_voice: string | null
  languages: string[]
}

function resolve ({ tasks, support }: ModelCard): ResolvedCapabilities {
  const has = (task: string): boolean => tasks.includes(task)
  const tools = Object.hasOwn(support, 'tools') ? support['tools'] : undefined
  return {
    chat: has('chat'),
    completions: has('completions'),
    embeddings: has('embeddings'),
    tts: has('tts'),
    streaming: has('chat') || has('completions') || has('tts'),
    tools: has('chat') && tools !== undefined && !tools.startsWith('no effect'),
    vision: false
  }
}

function audioOf ({ tasks, voices, defaults, languages }: ModelCard): AudioFacts | null {
  if (!tasks.includes('tts')) return null
  const voice = defaults['voice']
  const preset = typeof voice === 'string' ? voice : voices[0]?.id
  return { voices, default_voice: preset ?? null, languages }
}

/** The entry of a card in the model list. Megabytes are of 2^20 bytes, rounded up. */
export function modelListEntry (card: ModelCard, presence: ModelPresence): ModelListEntry {
  const { installed, ready, created, judgement } = presence
  return {
    id: card.modelId,
    object: 'model',
    created,
    owned_by: 'svc',
    name: card.title,
    description: card.description,
    context_length: card.contextLength,
    tags: [card.engine, ...card.languages],
    tasks: card.tasks,
    storage_size_megabytes: Math.ceil(card.totalBytes / 2 ** 20),
    supports_tensor: card.supportsTensor,
    family: card.family,
    quantization: card.quantization,
    capabilities: card.tasks,
    resolved_capabilities: resolve(card),
    audio: audioOf(card),
    installed,
    ready,
    available: judgement?.available ?? null,
    broken_link: judgement?.brokenLink ?? null,
    remedy: judgement?.remedy ?? null
  }
}
