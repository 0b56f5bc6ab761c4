import { randomUUID } from 'node:crypto'
import { definePlugin } from '../../kernel/index.js'
import { formatted } from './api/answer.js'
import { embed, embeddings, ollamaEmbed, ollamaEmbeddings } from './api/embedding-routes.js'
import {
  ollamaChat, ollamaGenerate, ollamaPs, ollamaShow, ollamaTags
} from './api/ollama-routes.js'
import { ChatFormatter } from './api/openai-format.js'
import { chat, completion, detokenize, messages, responses, tokenize } from './api/openai-routes.js'
import { chatTask } from './api/task.js'
import { manifest } from './manifest.js'
import type { CapabilityCall, CapabilityChunk } from '../../kernel/index.js'
import type { ApiParts } from './api/openai-routes.js'
import type { ChatBody } from './api/task.js'

/** Chat: the engine for language models and the APIs people already use. */
export default definePlugin(manifest, (ctx) => {
  const { runners, invocations } = ctx.deps
  const { model_aliases: aliases, ...limits } = ctx.config
  const parts: ApiParts = {
    runners, invocations, limits,
    aliases: aliases as Record<string, string>,
    clock: ctx.clock,
    newId: () => randomUUID().replaceAll('-', '')
  }
  return {
    invoke: {
      chat: (input, call) => chatChunks(parts, input, call),
      embeddings: async (input, call) => await embed(parts, input, call) as never
    },
    routes: {
      chat: (request) => chat(parts, request, request.body),
      completions: (request) => completion(parts, request, request.body),
      tokenize: (request) => tokenize(parts, request, request.body),
      detokenize: (request) => detokenize(parts, request, request.body),
      embeddings: (request) => embeddings(parts, request, request.body),
      messages: (request) => messages(parts, request, request.body),
      responses: (request) => responses(parts, request, request.body),
      ollamaChat: (request) => ollamaChat(parts, request, request.body),
      ollamaGenerate: (request) =>
        ollamaGenerate(parts, request, request.body),
      ollamaEmbed: (request) => ollamaEmbed(parts, request, request.body),
      ollamaEmbeddings: (request) => ollamaEmbeddings(parts, request, request.body),
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
  const asked = chatTask(body, parts.limits, parts.aliases)
  const shape = (facts: ConstructorParameters<typeof ChatFormatter>[0]): ChatFormatter =>
    new ChatFormatter(facts, { n: 1, includeUsage: false })
  for await (const chunk of formatted(parts, asked, call, shape)) yield { payload: chunk as never }
}
