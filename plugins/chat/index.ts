import { randomUUID } from 'node:crypto'
import { definePlugin } from '../../kernel/index.js'
import { messages } from './api/anthropic.js'
import { formatted } from './api/answer.js'
import { embed, embeddings, ollamaEmbed, ollamaEmbeddings } from './api/embeddings.js'
import { ollamaChat, ollamaGenerate, ollamaPs, ollamaShow, ollamaTags } from './api/ollama.js'
import { chat, chatFormat, completion, detokenize, tokenize } from './api/openai.js'
import { responses } from './api/responses.js'
import { chatTask } from './api/task.js'
import { manifest } from './manifest.js'
import type { CapabilityCall, CapabilityChunk } from '../../kernel/index.js'
import type { ApiParts } from './api/answer.js'
import type { ChatBody } from './api/task.js'

/** Chat: the engine for language models and the APIs people already use. */
export default definePlugin(manifest, (ctx) => {
  const { runners, invocations } = ctx.deps
  const { model_aliases: aliases, ...limits } = ctx.config
  const parts: ApiParts = {
    runners, invocations, limits,
    aliases: aliases as Record<string, string>,
    sees: (modelId) => {
      const card = runners.card(modelId)
      return card === undefined || card.support['images'] !== undefined
    },
    clock: ctx.clock,
    newId: () => randomUUID().replaceAll('-', '')
  }
  return {
    invoke: {
      chat: (input, call) => chatChunks(parts, input, call),
      embeddings: async (input, call) => await embed(parts, input, call) as never
    },
    routes: {
      chat: (request) => chat(parts, request),
      completions: (request) => completion(parts, request),
      tokenize: (request) => tokenize(parts, request),
      detokenize: (request) => detokenize(parts, request),
      embeddings: (request) => embeddings(parts, request),
      messages: (request) => messages(parts, request),
      responses: (request) => responses(parts, request),
      ollamaChat: (request) => ollamaChat(parts, request),
      ollamaGenerate: (request) => ollamaGenerate(parts, request),
      ollamaEmbed: (request) => ollamaEmbed(parts, request),
      ollamaEmbeddings: (request) => ollamaEmbeddings(parts, request),
      ollamaTags: () => ollamaTags(parts),
      ollamaPs: () => ollamaPs(parts),
      ollamaShow: ({ body }) => ollamaShow(parts, body),
      ollamaVersion: () => ({ version: ctx.node.version })
    }
  }
})

/** The capability: chunks as they are on the chat route. */
async function * chatChunks (
  parts: ApiParts, body: ChatBody, call: CapabilityCall
): AsyncGenerator<CapabilityChunk<never>> {
  const format = chatFormat({ n: 1, includeUsage: false })
  for await (const chunks of formatted(parts, chatTask(body, parts), call, format)) {
    for (const chunk of chunks) yield { payload: chunk as never }
  }
}
