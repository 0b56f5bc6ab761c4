import type { ModelCard } from '../../../kernel/index.js'

export interface Availability {
  available: boolean, brokenLink: string | null, remedy: string | null, wanted: boolean
}

/** Facts about a model for its entry in the list. `created` is in Unix seconds. */
export interface ModelPresence {
  installed: boolean, ready: boolean, created: number
  /** True if a plugin serves the model; it has no files. */
  virtual: boolean
  /** Whether the model can run; left out if no plugin runs models. */
  judgement?: Availability | undefined
}

/** A card's entry in `GET /v1/models`. Megabytes are 2^20 bytes, rounded up. */
export function modelListEntry (
  card: ModelCard, { installed, ready, created, judgement, virtual }: ModelPresence
) {
  return {
    // `root` is the model behind the id, which may be an alias.
    id: card.modelId, root: card.modelId, object: 'model', created, owned_by: 'svc',
    name: card.title, description: card.description, context_length: card.contextLength,
    tags: [card.engine, ...card.languages], tasks: card.tasks,
    storage_size_megabytes: Math.ceil(card.totalBytes / 2 ** 20), supports_tensor: card.supportsTensor,
    family: card.family, quantization: card.quantization, capabilities: card.tasks,
    resolved_capabilities: capabilitiesOf(card), audio: audioOf(card), installed, ready, virtual,
    // The first broken link of the availability chain; null if no plugin runs models.
    available: judgement?.available ?? null, broken_link: judgement?.brokenLink ?? null,
    remedy: judgement?.remedy ?? null
  }
}

const TASK_ORDER = ['chat', 'completions', 'embeddings', 'rerank', 'tts', 'stt']

/** Position of a model in lists: ready chat models first, because clients preselect the first model. */
export function listRank ({ tasks }: Pick<ModelCard, 'tasks'>, ready: boolean): number {
  const at = TASK_ORDER.findIndex((task) => tasks.includes(task))
  // Tasks of other plugins come last.
  return (at < 0 ? TASK_ORDER.length : at) + (ready ? 0 : TASK_ORDER.length + 1)
}

export function takesTools ({ tasks, support }: Pick<ModelCard, 'tasks' | 'support'>): boolean {
  const tools = Object.hasOwn(support, 'tools') ? support['tools'] : undefined
  return tasks.includes('chat') && tools !== undefined && !tools.startsWith('no effect')
}

function capabilitiesOf ({ tasks, support }: ModelCard) {
  const has = (task: string): boolean => tasks.includes(task)
  return {
    chat: has('chat'), completions: has('completions'), embeddings: has('embeddings'),
    rerank: has('rerank'), tts: has('tts'), stt: has('stt'),
    streaming: has('chat') || has('completions') || has('tts') || has('stt'),
    tools: takesTools({ tasks, support }), vision: Object.hasOwn(support, 'images')
  }
}

function audioOf ({ tasks, voices, defaults, languages }: ModelCard) {
  if (!tasks.includes('tts')) return null
  const voice = defaults['voice']
  const preset = typeof voice === 'string' ? voice : voices[0]?.id
  return { voices, default_voice: preset ?? null, languages }
}

export interface ModelList { object: 'list', data: readonly ReturnType<typeof modelListEntry>[] }
