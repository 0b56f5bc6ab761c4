/** Handlers of the routes that speak Ollama's API. */
import { kernelError } from '../../../kernel/index.js'
import { answer } from './answer.js'
import { listedModel, ollamaChatFormat, ollamaGenerateFormat, shownModel } from './ollama-format.js'
import { fromOllamaChat, fromOllamaGenerate, fromOllamaRaw } from './ollama-task.js'
import { refused } from './errors.js'
import { chatTask, completionTask, renamed } from './task.js'
import type { FromSchema, ModelCard, RouteRequest } from '../../../kernel/index.js'
import type { OllamaChat, OllamaGenerate, ollamaShowBody } from './ollama-task.js'
import type { ApiParts } from './openai-routes.js'

/** POST /ollama/api/chat. */
export async function ollamaChat (parts: ApiParts, request: RouteRequest, body: OllamaChat): Promise<void> {
  const asked = chatTask(fromOllamaChat(body), parts.limits, parts.aliases)
  await answer(parts, request, asked, body.stream !== false, ollamaChatFormat)
}

/** POST /ollama/api/generate. */
export async function ollamaGenerate (
  parts: ApiParts, request: RouteRequest, body: OllamaGenerate
): Promise<void> {
  const { limits, aliases } = parts
  const asked = body.raw === true
    ? completionTask(fromOllamaRaw(body), limits, aliases)
    : chatTask(fromOllamaGenerate(body), limits, aliases)
  await answer(parts, request, asked, body.stream !== false, ollamaGenerateFormat)
}

interface Known { card: ModelCard, ready: boolean }

/** Language models and encoders this node can name, by id. */
function models ({ runners }: ApiParts): Known[] {
  const all = ['chat', 'completions', 'embeddings'].flatMap((task) => runners.models(task))
  return [...new Map(all.map((known) => [known.card.modelId, known])).values()]
}

/** GET /ollama/api/tags. */
export const ollamaTags = (parts: ApiParts): object =>
  ({ models: models(parts).map(({ card }) => listedModel(card)) })

/** GET /ollama/api/ps. */
export const ollamaPs = (parts: ApiParts): object => ({
  models: models(parts).filter(({ ready }) => ready)
    .map(({ card }) => ({ ...listedModel(card), expires_at: NEVER, size_vram: 0 }))
})

/** Placed models stay. */
const NEVER = '9999-12-31T23:59:59Z'

/** POST /ollama/api/show. Throws `no_instance` for a model this node cannot name. */
export function ollamaShow (parts: ApiParts, body: FromSchema<typeof ollamaShowBody>): object {
  const named = body.model ?? body.name
  if (named === undefined) throw refused('model', 'is required')
  const card = parts.runners.card(renamed(parts.aliases, named))
  if (card !== undefined) return shownModel(card)
  throw kernelError('no_instance', `No model ${named} is known here.`, { model: named })
}
