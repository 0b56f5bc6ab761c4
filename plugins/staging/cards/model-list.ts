import type { ModelCard } from '../../../kernel/index.js'

/** Whether a model can serve requests; if not, the first missing part and its remedy. */
export interface Availability {
  available: boolean
  brokenLink: string | null
  remedy: string | null
  /** It is placed, or waits for a place. */
  wanted: boolean
}

/** What is known about a model beside its card. `created` is in unix seconds. */
export interface ModelPresence {
  installed: boolean
  ready: boolean
  created: number
  /** A plugin answers it: it has no files. */
  virtual: boolean
  /** Left out where nobody judges. */
  judgement?: Availability | undefined
}

/** The entry of a card in `GET /v1/models`. Megabytes are of 2^20 bytes, rounded up. */
export function modelListEntry (
  card: ModelCard, { installed, ready, created, judgement, virtual }: ModelPresence
) {
  return {
    id: card.modelId,
    // The model that answers where the id is another name of it.
    root: card.modelId,
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
    resolved_capabilities: capabilitiesOf(card),
    audio: audioOf(card),
    installed,
    ready,
    virtual,
    // Whether it can be asked, else the first broken link of its availability chain and what mends it; null
    // where no plugin runs models.
    available: judgement?.available ?? null,
    broken_link: judgement?.brokenLink ?? null,
    remedy: judgement?.remedy ?? null
  }
}

export function takesTools ({ tasks, support }: Pick<ModelCard, 'tasks' | 'support'>): boolean {
  const tools = Object.hasOwn(support, 'tools') ? support['tools'] : undefined
  return tasks.includes('chat') && tools !== undefined && !tools.startsWith('no effect')
}

function capabilitiesOf ({ tasks, support }: ModelCard) {
  const has = (task: string): boolean => tasks.includes(task)
  return {
    chat: has('chat'),
    completions: has('completions'),
    embeddings: has('embeddings'),
    rerank: has('rerank'),
    tts: has('tts'),
    streaming: has('chat') || has('completions') || has('tts'),
    tools: takesTools({ tasks, support }),
    vision: Object.hasOwn(support, 'images')
  }
}

function audioOf ({ tasks, voices, defaults, languages }: ModelCard) {
  if (!tasks.includes('tts')) return null
  const voice = defaults['voice']
  const preset = typeof voice === 'string' ? voice : voices[0]?.id
  return { voices, default_voice: preset ?? null, languages }
}

export interface ModelList { object: 'list', data: readonly ReturnType<typeof modelListEntry>[] }
