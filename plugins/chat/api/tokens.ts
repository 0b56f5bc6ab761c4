/** vLLM's token routes, and the token counts of the other APIs. */
import { badField, type CapabilityCall, type EngineTask } from '../../../kernel/index.js'
import { present, type Fields } from '../../runners/language/json.js'
import { answerJson, runRequest } from './answer.js'
import { longText, name, text } from './fields.js'
import { isImage } from './images.js'
import { message, tool } from './schema.js'
import { visionSupportOf, modelOf, toMessages } from './request-to-task.js'
import type { ApiParts, TextRequest, Handler } from './types.js'

/** Body of POST /v1/tokenize. */
export const tokenizeBody = {
  type: 'object', required: ['model'],
  properties: {
    model: name,
    prompt: text,
    messages: { type: 'array', minItems: 1, items: message },
    tools: { type: ['array', 'null'], items: tool },
    add_special_tokens: { type: 'boolean' },
    add_generation_prompt: { type: 'boolean' }
  }
} as const

/** Body of POST /v1/detokenize. */
export const detokenizeBody = {
  type: 'object', required: ['model', 'tokens'],
  properties: { model: name, tokens: { type: 'array', ...longText, items: { type: 'integer', minimum: 0 } } }
} as const

export const tokenize: Handler<typeof tokenizeBody> = async (parts, request) => {
  const { model, prompt, messages, tools, add_special_tokens, add_generation_prompt } = request.body
  if ((prompt === undefined) === (messages === undefined)) {
    throw badField('prompt', 'or messages is required, but not both')
  }
  const payload = messages === undefined
    ? present({ prompt, add_special_tokens })
    : present({ messages: toMessages(messages, visionSupportOf(parts, model)), tools, add_generation_prompt })
  refuseImages(messages ?? [])
  await answerJson(parts, request, async (call) => {
    const { tokens, count, context_length } = await replyTo(parts, model, { kind: 'tokenize', payload }, call)
    return { tokens, count, max_model_len: context_length }
  })
}

export const detokenize: Handler<typeof detokenizeBody> = async (parts, request) => {
  const { model, tokens } = request.body
  await answerJson(parts, request, async (call) => {
    const { text } = await replyTo(parts, model, { kind: 'detokenize', payload: { tokens } }, call)
    return { prompt: text }
  })
}

function refuseImages (messages: readonly Fields[]): void {
  if (!messages.some(({ content }) => Array.isArray(content) && (content as Fields[]).some(isImage))) return
  throw badField('messages', 'have images, which have no token ids; the usage of an answer counts them')
}

/** Model tasks that imply a tokenizer. */
const TEXT_TASKS = ['chat', 'completions', 'embeddings', 'rerank']

/** Runs a task that replies with a single message, and returns that message. */
async function replyTo (
  parts: ApiParts, name: string, task: EngineTask, call: CapabilityCall
): Promise<Record<string, unknown>> {
  const modelId = modelOf(parts, name)
  const tasks = parts.runners.card(modelId)?.tasks ?? []
  const capability = TEXT_TASKS.find((known) => tasks.includes(known)) ?? 'chat'
  let reply: Record<string, unknown> = {}
  const request = { modelId, capability, task }
  for await (const payload of runRequest(parts.runners, request, call, ({ payload }) => payload)) {
    reply = payload
  }
  return reply
}

/** Counts a chat prompt's tokens. Throws `invalid_request` for images, which have no token ids. */
export async function countTokens (
  parts: ApiParts, { modelId, task: { payload } }: TextRequest, call: CapabilityCall
): Promise<number> {
  const { messages, tools, chat_template_kwargs } = payload as Record<string, unknown>
  refuseImages(messages as Fields[])
  const task = { kind: 'tokenize', payload: present({ messages, tools, chat_template_kwargs }) }
  return Number((await replyTo(parts, modelId, task, call))['count'])
}
