/** Handlers of the routes of OpenAI's and Anthropic's APIs that write text, and of the token routes. */
import { runTask } from '../../runners/service.js'
import { answer, answerJson } from './answer.js'
import { messageFormat } from './anthropic-format.js'
import { fromAnthropic } from './anthropic-task.js'
import { toMessages } from './messages.js'
import { chatFormat, completionFormat } from './openai-format.js'
import { responseFormat } from './responses-format.js'
import { fromResponses } from './responses-task.js'
import { asRequestError, refused } from './errors.js'
import { chatTask, completionTask, renamed } from './task.js'
import type { CapabilityCall, EngineTask, FromSchema, RouteRequest } from '../../../kernel/index.js'
import type { Answering } from './answer.js'
import type { MessagesBody } from './anthropic-task.js'
import type { Limits } from './errors.js'
import type { ChunkOptions } from './openai-format.js'
import type { ResponsesBody } from './responses-task.js'
import type { ChatBody, CompletionBody } from './task.js'
import type { detokenizeBody, tokenizeBody } from './schema.js'

/** What the routes of every API work with. */
export interface ApiParts extends Answering {
  limits: Limits
  aliases: Readonly<Record<string, string>>
}

/** POST /v1/chat/completions. */
export async function chat (parts: ApiParts, request: RouteRequest, body: ChatBody): Promise<void> {
  const asked = chatTask(body, parts.limits, parts.aliases)
  await answer(parts, request, asked, body.stream === true, chatFormat(chunkOptions(body)))
}

/** POST /v1/completions. */
export async function completion (
  parts: ApiParts, request: RouteRequest, body: CompletionBody
): Promise<void> {
  const asked = completionTask(body, parts.limits, parts.aliases)
  await answer(parts, request, asked, body.stream === true, completionFormat(chunkOptions(body)))
}

const chunkOptions = (
  { n, stream_options: options }: Pick<CompletionBody, 'n' | 'stream_options'>
): ChunkOptions => ({ n: n ?? 1, includeUsage: options?.include_usage === true })

/** POST /v1/messages. */
export async function messages (parts: ApiParts, request: RouteRequest, body: MessagesBody): Promise<void> {
  const asked = chatTask(fromAnthropic(body), parts.limits, parts.aliases)
  await answer(parts, request, asked, body.stream === true, messageFormat)
}

/** POST /v1/responses. */
export async function responses (parts: ApiParts, request: RouteRequest, body: ResponsesBody): Promise<void> {
  const asked = chatTask(fromResponses(body), parts.limits, parts.aliases)
  await answer(parts, request, asked, body.stream === true, responseFormat(body))
}

/** POST /v1/tokenize. */
export async function tokenize (
  parts: ApiParts, request: RouteRequest, body: FromSchema<typeof tokenizeBody>
): Promise<void> {
  const { prompt, messages, tools, add_special_tokens: special, add_generation_prompt: generation } = body
  if ((prompt === undefined) === (messages === undefined)) {
    throw refused('prompt', 'or messages is required, and not both')
  }
  const payload = messages === undefined
    ? { prompt, ...special === undefined ? {} : { add_special_tokens: special } }
    : {
        messages: toMessages(messages),
        ...tools == null ? {} : { tools },
        ...generation === undefined ? {} : { add_generation_prompt: generation }
      }
  await answerJson(parts, request, async (call) => {
    const told = await onlyChunk(parts, body.model, { kind: 'tokenize', payload }, call)
    return { tokens: told['tokens'], count: told['count'], max_model_len: told['context_length'] }
  })
}

/** POST /v1/detokenize. */
export async function detokenize (
  parts: ApiParts, request: RouteRequest, body: FromSchema<typeof detokenizeBody>
): Promise<void> {
  const { model, tokens } = body
  await answerJson(parts, request, async (call) => {
    const told = await onlyChunk(parts, model, { kind: 'detokenize', payload: { tokens } }, call)
    return { prompt: told['text'] }
  })
}

/** Every model of this engine serves tokens, whatever else it does. */
const TASKS = ['chat', 'completions', 'embeddings']

async function onlyChunk (
  { runners, aliases }: ApiParts, name: string, task: EngineTask, call: CapabilityCall
): Promise<Record<string, unknown>> {
  const modelId = renamed(aliases, name)
  const tasks = runners.card(modelId)?.tasks ?? []
  const capability = TASKS.find((known) => tasks.includes(known)) ?? 'chat'
  let told: Record<string, unknown> = {}
  try {
    for await (const { payload } of runTask(runners, { modelId, capability, task }, call)) told = payload
  } catch (error) {
    throw asRequestError(error)
  }
  return told
}
