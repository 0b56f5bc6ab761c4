/** Converts chat and completion requests to engine tasks; other APIs convert to these first. Pure. */
import { badField } from '../../../kernel/index.js'
import { idsOf, present, type Fields } from '../../runners/language/json.js'
import { samplingOf } from '../../runners/language/sampling.js'
import { atMost, checkSchema, type Limits, type Rules } from './errors.js'
import { imagePart, isImage, type VisionSupport } from './images.js'
import { llamaFields, type ChatBody, type CompletionBody, type InputMessage, type Tool } from './schema.js'
import type { ChatMessage } from '../../runners/language/chunks.js'
import type { TextRequest, Prompt } from './types.js'

export const functionTool = (name: string, more: Omit<Tool['function'], 'name'>): Tool =>
  ({ type: 'function', function: { name, ...present(more) } })

/** A tool call in the chat API's format; `input` is the JSON of its arguments. */
export const functionCall = (id: string, name: string, input: string): object =>
  ({ id, type: 'function', function: { name, arguments: input } })

export type NameRules = Pick<Rules, 'aliases'>

/** Resolves a requested name to the id of the model that runs. */
export const modelOf = ({ aliases }: NameRules, name: string): string =>
  Object.hasOwn(aliases, name) ? aliases[name]! : name

export type VisionRules = NameRules & Pick<Rules, 'readsImages'>

export function visionSupportOf (rules: VisionRules, name: string): VisionSupport {
  const modelId = modelOf(rules, name)
  return { modelId, readsImages: rules.readsImages(modelId) }
}

/** Converts a chat request to a task. Throws `invalid_request` naming the field. */
export function chatTask (body: ChatBody, rules: Rules): TextRequest {
  const { limits } = rules
  atMost('messages', body.messages.length, limits.max_messages, 'messages')
  const tools = toolsOf(body, limits)
  const payload = {
    messages: toMessages(body.messages, visionSupportOf(rules, body.model)),
    ...lengthsOf(body, limits, body.max_completion_tokens ?? body.max_tokens),
    ...samplingIn(body),
    ...logprobsOf(body),
    ...present({
      response_format: formatOf(body, limits),
      chat_template_kwargs: templateVariables(body),
      ...tools.length === 0
        ? {}
        : { tools, tool_choice: body.tool_choice, parallel_tool_calls: body.parallel_tool_calls }
    })
  }
  return {
    modelId: modelOf(rules, body.model), capability: 'chat', task: { kind: 'chat', payload },
    ttlSeconds: body.ttl ?? undefined,
    reading: { mostCalls: body.parallel_tool_calls === false ? 1 : Infinity }
  }
}

function toolsOf (body: ChatBody, limits: Limits): Tool[] {
  const tools = body.tools ?? []
  atMost('tools', tools.length, limits.max_tools, 'tools')
  for (const [i, tool] of tools.entries()) {
    checkSchema(`tools.${i}.function.parameters`, tool.function.parameters, limits)
  }
  const choice = body.tool_choice
  if (choice === 'none') return []
  if (typeof choice === 'string' && !['auto', 'required'].includes(choice)) {
    throw badField('tool_choice', 'must be "none", "auto", "required" or a function')
  }
  if (choice != null && choice !== 'auto' && tools.length === 0) {
    throw badField('tool_choice', 'needs tools, but the request has none')
  }
  const wanted = typeof choice === 'object' && choice !== null ? choice.function.name : undefined
  if (wanted !== undefined && !tools.some((tool) => tool.function.name === wanted)) {
    throw badField('tool_choice.function.name', `"${wanted.slice(0, 64)}" is not one of the tools`)
  }
  return tools
}

/** The format constraint of the answer, from `response_format` or `json_schema`; null for none. */
function formatOf ({ response_format: format, json_schema: alone }: ChatBody, limits: Limits): object | null {
  if (format == null || format.type === 'text') {
    if (alone == null) return null
    checkSchema('json_schema', alone, limits)
    return { type: 'json_schema', json_schema: { schema: alone } }
  }
  if (format.type === 'json_object') {
    // llama.cpp's server accepts a `schema` in `response_format`.
    const { type, schema } = format
    if (schema == null) return { type }
    checkSchema('response_format.schema', schema, limits)
    return { type: 'json_schema', json_schema: { schema } }
  }
  const given = format.json_schema
  if (given === undefined) throw badField('response_format.json_schema', 'is required')
  const { schema, strict } = given
  checkSchema('response_format.json_schema.schema', schema, limits)
  return { type: 'json_schema', json_schema: { schema, ...strict === true ? { strict } : {} } }
}

function logprobsOf ({ logprobs, top_logprobs: top, n_probs: probs }: ChatBody): object {
  if (top != null && top > 0 && logprobs !== true) throw badField('top_logprobs', 'needs logprobs: true')
  if (logprobs === true) return { logprobs, top_logprobs: top ?? 0 }
  return probs != null && probs > 0 ? { logprobs: true, top_logprobs: probs } : {}
}

/** Template variables that clients may not set, because the request or the model's files set them. */
const RESERVED = /^(messages|tools|documents|add_generation_prompt|continue_final_message|\w+_token)$/

/** Template variables in addition to the messages; null for none. */
function templateVariables (body: ChatBody): Record<string, unknown> | null {
  const { reasoning_effort: effort, chat_template_kwargs: given } = body
  const own = Object.keys(given ?? {}).find((name) => RESERVED.test(name))
  if (own !== undefined) {
    throw badField(`chat_template_kwargs.${own}`, 'is set by the request or the model; leave it out')
  }
  const thinking = effort == null ? {} : { reasoning_effort: effort, enable_thinking: effort !== 'none' }
  const variables = { ...thinking, ...given }
  return Object.keys(variables).length > 0 ? variables : null
}

/** Sampling parameters: OpenAI's and llama.cpp's, under their own names. */
function samplingIn (body: CompletionBody | ChatBody): object {
  const { repetition_penalty: repetition, repeat_penalty: repeat, logit_bias } = body
  const { n_probs: _, repeat_penalty: __, json_schema: ___, n_predict: ____, ...others } = llamaFields
  const given = Object.keys(others).map((name) => [name, body[name as keyof typeof others]])
  return {
    ...samplingOf('chat', { ...body, repetition_penalty: repetition ?? repeat }),
    ...present({ logit_bias, extra_body: body.extra_body, ...Object.fromEntries(given) })
  }
}

function lengthsOf (
  body: Pick<CompletionBody, 'stop' | 'n' | 'n_predict'>, limits: Limits, given: number | null | undefined
): object {
  const stop = [body.stop ?? []].flat()
  atMost('stop', stop.length, limits.max_stops, 'texts')
  const { n, n_predict: predict } = body
  if (n != null && n > limits.max_answers) {
    throw badField('n', `is ${n}; at most ${limits.max_answers} are allowed`)
  }
  const most = given ?? predict
  const name = given == null ? 'n_predict' : 'max_tokens'
  if (most === 0) throw badField(name, 'is 0; it must be at least 1, or -1 for no limit')
  return { ...present({ n, [name]: most === -1 ? null : most }), ...stop.length === 0 ? {} : { stop } }
}

/** Converts messages to the form that chat templates expect. Throws `invalid_request` with the field. */
export function toMessages (messages: readonly InputMessage[], vision: VisionSupport): ChatMessage[] {
  return messages.map((message, i) => toMessage(message, `messages.${i}`, vision))
}

function toMessage (message: InputMessage, path: string, vision: VisionSupport): ChatMessage {
  const { role, name, tool_calls: calls, tool_call_id: callId, reasoning_content: reasoning } = message
  const content = contentOf(message, `${path}.content`, vision)
  refuseOld(message as unknown as Fields, path)
  const hasCalls = role === 'assistant' && calls != null && calls.length > 0
  if (content === null && !hasCalls) throw badField(`${path}.content`, 'is required')
  if (role === 'tool' && callId == null) throw badField(`${path}.tool_call_id`, 'is required')
  return {
    // Chat templates do not support the role "developer".
    role: role === 'developer' ? 'system' : role,
    content,
    ...present({
      name, reasoning_content: role === 'assistant' ? reasoning : null,
      tool_calls: hasCalls ? calls : null, tool_call_id: role === 'tool' ? callId : null
    })
  }
}

/** Refuses deprecated fields, and the audio that clients copy from audio models' answers. */
function refuseOld (message: Fields, path: string): void {
  if (message['function_call'] != null) {
    throw badField(`${path}.function_call`, 'is not served; send tool_calls')
  }
  if (message['audio'] != null) throw badField(`${path}.audio`, 'is not served: svc stores no audio')
}

/** Content with images stays a list of checked parts; any other content becomes text. */
function contentOf (
  { role, content: given = null, refusal = null }: InputMessage, path: string, vision: VisionSupport
): ChatMessage['content'] {
  const content = given ?? (role === 'assistant' ? refusal : null)
  const parts = role === 'user' && Array.isArray(content) ? content as Fields[] : []
  if (!parts.some(isImage)) return textOf(content, path)
  return parts.map((part, i) => isImage(part)
    ? imagePart(part, `${path}.${i}`, vision)
    : { type: 'text', text: partText(part, `${path}.${i}`) })
}

/** Part types that are not supported; images are supported in user messages only. */
const UNREADABLE: Readonly<Record<string, string>> = {
  image_url: 'an image', input_image: 'an image', image: 'an image', input_audio: 'audio', file: 'a file',
  input_file: 'a file', document: 'a document', video_url: 'a video'
}

/** The text in a message's content; text parts are joined with line breaks. */
export function textOf (content: string | unknown[] | null, path: string): string | null {
  if (content === null || typeof content === 'string') return content
  return content.map((part, i) => partText(part as Fields, `${path}.${i}`)).join('\n')
}

/** The text of a part. Throws `invalid_request` for a part that is not text. */
export function partText (part: Fields, path: string): string {
  const type = String(part['type'])
  if (Object.hasOwn(UNREADABLE, type)) {
    const why = UNREADABLE[type] === 'an image'
      ? 'images are allowed in user messages only'
      : 'language models read text and images only'
    throw badField(path, `is ${UNREADABLE[type]}; ${why}`)
  }
  const text = type === 'refusal' ? part['refusal'] : part['text']
  if (!['text', 'input_text', 'output_text', 'refusal'].includes(type)) {
    throw badField(`${path}.type`, `"${type.slice(0, 64)}" is not known; send parts of type text`)
  }
  if (typeof text !== 'string') throw badField(`${path}.text`, 'must be a string')
  return text
}

/** OpenAI's default for `max_tokens` in a text completion. */
const DEFAULT_COMPLETION_TOKENS = 16

/** Converts one or several plain prompts to a task. Throws `invalid_request` naming the field. */
export function completionTask (body: CompletionBody, rules: Rules): TextRequest {
  const { limits } = rules
  const { echo, logprobs } = body
  if (echo === true && logprobs != null) {
    throw badField('echo', 'is not served with logprobs: prompts are not scored; leave out one of them')
  }
  if (body.json_schema != null) checkSchema('json_schema', body.json_schema, limits)
  const tops = logprobs ?? (body.n_probs === 0 ? null : body.n_probs)
  const shared = {
    ...lengthsOf(body, limits,
      body.max_tokens ?? (body.n_predict == null ? DEFAULT_COMPLETION_TOKENS : null)),
    ...samplingIn(body),
    ...present({ json_schema: body.json_schema }),
    ...tops == null ? {} : { logprobs: true, top_logprobs: tops }
  }
  const prompts = promptsOf(body.prompt)
  atMost('prompt', prompts.length, limits.max_inputs, 'prompts')
  const [first, ...others] = prompts.map((prompt, i): Prompt => {
    if (echo === true && typeof prompt !== 'string') {
      throw badField(prompts.length > 1 ? `prompt.${i}` : 'prompt', 'must be a text if echo is true')
    }
    return {
      task: { kind: 'completion', payload: { prompt, ...shared } },
      reading: { mostCalls: 0, ...echo === true ? { echo: prompt as string } : {} }
    }
  })
  return {
    modelId: modelOf(rules, body.model), capability: 'completions', ...first!,
    ttlSeconds: body.ttl ?? undefined,
    ...others.length === 0 ? {} : { more: { prompts: others, answers: body.n ?? 1 } }
  }
}

/** One prompt or a list of prompts, each either a string or token ids. */
function promptsOf (prompt: unknown): (string | number[])[] {
  const one = typeof prompt === 'string' || idsOf(prompt) !== undefined
  const all: unknown[] = one ? [prompt] : prompt as unknown[]
  return all.map((each, i) => {
    if (typeof each === 'string') return each
    const ids = idsOf(each) ?? []
    if (ids.length > 0) return ids
    throw badField(one ? 'prompt' : `prompt.${i}`, 'must be a text, or token ids')
  })
}
