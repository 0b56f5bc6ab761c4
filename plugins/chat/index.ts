import { randomUUID } from 'node:crypto'
import { definePlugin, type CapabilityCall, type CapabilityChunk, type Context } from '../../kernel/index.js'
import { countMessages, messages } from './api/anthropic.js'
import { formatted } from './api/answer.js'
import { embed, embeddings, rerank } from './api/embeddings.js'
import { ResponseStore } from './api/response-store.js'
import { ollamaChat, ollamaGenerate } from './api/ollama/chat.js'
import { ollamaEmbed, ollamaEmbeddings } from './api/ollama/embed.js'
import { ollamaDelete, ollamaPull } from './api/ollama/manage.js'
import { lmStudioModels, running, unload } from './api/swapping.js'
import { ollamaPs, ollamaShow, ollamaTags } from './api/ollama/models.js'
import { chat, chatFormat, completion } from './api/openai.js'
import { inputTokens, responses } from './api/responses.js'
import { chatTask, modelOf } from './api/request-to-task.js'
import { detokenize, tokenize } from './api/tokens.js'
import { manifest } from './manifest.js'
import type { ApiParts } from './api/types.js'
import type { ChatBody } from './api/schema.js'

/** Chat: the engine for embeddings, and APIs compatible with OpenAI, Anthropic and Ollama. */
export default definePlugin(manifest, (ctx) => {
  const parts = partsOf(ctx)
  const { models } = ctx.deps
  if (models !== undefined) ctx.effect('names of models', models.names(() =>
    Object.entries(parts.aliases).map(([id, root]) => ({ id, root }))))
  return {
    services: { chat: {
      answer: (body, call) => payloads(chatChunks(parts, body, call)),
      modelOf: (name) => modelOf(parts, name)
    } },
    invoke: {
      chat: (input, call) => chatChunks(parts, input, call),
      embeddings: async (input, call) => await embed(parts, input, call) as never
    },
    routes: {
      ...bound(parts, {
        chat, completions: completion, tokenize, detokenize, embeddings, rerank, messages, countMessages,
        responses, inputTokens, ollamaChat, ollamaGenerate, ollamaEmbed, ollamaEmbeddings, ollamaTags,
        ollamaPs, ollamaShow, ollamaPull, ollamaDelete, lmStudioModels, running, unload
      }),
      // Clients check for this text to detect Ollama.
      ollama: () => 'Ollama is running',
      ollamaVersion: () => ({ version: ctx.node.version })
    }
  }
})

type Bound<Handlers> = {
  [Name in keyof Handlers]: Handlers[Name] extends (parts: ApiParts, request: infer Request) => infer Answer
    ? (request: Request) => Answer : never
}

/** Passes `parts` to each handler as its first argument. */
const bound = <Handlers extends Record<string, (parts: ApiParts, request: never) => unknown>>(
  parts: ApiParts, handlers: Handlers
): Bound<Handlers> => Object.fromEntries(Object.entries(handlers).map(([name, handler]) =>
  [name, (request: never) => handler(parts, request)])) as Bound<Handlers>

const MIB = 2 ** 20

function partsOf (ctx: Context<typeof manifest>): ApiParts {
  const { runners, invocations, own, instances, models } = ctx.deps
  const { model_aliases: aliases, kept_mib: kept, ...limits } = ctx.config
  return {
    runners, invocations, own, instances, models, limits,
    aliases: aliases as Record<string, string>,
    readsImages: (modelId) => {
      const card = runners.card(modelId)
      return card === undefined || card.support['images'] !== undefined
    },
    threads: new ResponseStore(kept * MIB),
    loading: new Map(),
    startedMs: ctx.clock.now(),
    clock: ctx.clock,
    log: ctx.log,
    newId: () => randomUUID().replaceAll('-', '')
  }
}

/** Runs the capability `chat`; yields the chunks that POST /v1/chat/completions streams. */
async function * chatChunks (
  parts: ApiParts, body: ChatBody, call: CapabilityCall
): AsyncGenerator<CapabilityChunk<never>> {
  const format = chatFormat({ n: 1, includeUsage: false })
  for await (const chunks of formatted(parts, chatTask(body, parts), call, format, (values) => values)) {
    for (const chunk of chunks) yield { payload: chunk as never }
  }
}

async function * payloads<T> (chunks: AsyncIterable<CapabilityChunk<T>>): AsyncGenerator<T> {
  for await (const { payload } of chunks) yield payload
}
