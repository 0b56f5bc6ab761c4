import { randomUUID } from 'node:crypto'
import { definePlugin } from '../../kernel/index.js'
import { formatted } from './api/answer.js'
import { ChatFormatter } from './api/chat-format.js'
import { embed, embeddings, ollamaEmbed, ollamaEmbeddings } from './api/embedding-routes.js'
import {
  ollamaChat, ollamaGenerate, ollamaPs, ollamaShow, ollamaTags
} from './api/ollama-routes.js'
import { chat, completion, detokenize, tokenize } from './api/openai-routes.js'
import { messages, responses } from './api/other-routes.js'
import { chatTask } from './api/task.js'
import { manifest } from './manifest.js'
import type { CapabilityCall, CapabilityChunk, RouteRequest } from '../../kernel/index.js'
import type { MessagesBody } from './api/anthropic-task.js'
import type { OllamaChat, OllamaGenerate } from './api/ollama-task.js'
import type { ApiParts } from './api/openai-routes.js'
import type { ResponsesBody } from './api/responses-task.js'
import type { ChatBody, CompletionBody } from './api/task.js'

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
      chat: (input, call) => chatChunks(parts, input as ChatBody, call),
      embeddings: async (input, call) => await embed(parts, input, call as CapabilityCall) as never
    },
    routes: {
      chat: (request) => chat(parts, request as RouteRequest, request.body as ChatBody),
      completions: (request) => completion(parts, request as RouteRequest, request.body as CompletionBody),
      tokenize: (request) => tokenize(parts, request as RouteRequest, request.body),
      detokenize: (request) => detokenize(parts, request as RouteRequest, request.body),
      embeddings: (request) => embeddings(parts, request as RouteRequest, request.body),
      messages: (request) => messages(parts, request as RouteRequest, request.body as MessagesBody),
      responses: (request) => responses(parts, request as RouteRequest, request.body as ResponsesBody),
      ollamaChat: (request) => ollamaChat(parts, request as RouteRequest, request.body as OllamaChat),
      ollamaGenerate: (request) =>
        ollamaGenerate(parts, request as RouteRequest, request.body as OllamaGenerate),
      ollamaEmbed: (request) => ollamaEmbed(parts, request as RouteRequest, request.body),
      ollamaEmbeddings: (request) => ollamaEmbeddings(parts, request as RouteRequest, request.body),
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
