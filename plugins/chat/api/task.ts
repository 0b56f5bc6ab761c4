/** OpenAI's requests as tasks of the engine. Pure. */
import { atMost, checkSchema, refused } from './errors.js'
import { toMessages } from './messages.js'
import { samplingOf } from '../sampling.js'
import { MARKERS } from '../text/parse/output.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { GrammarRequest } from '../text/types.js'
import type { Asked } from './answer.js'
import type { Limits } from './errors.js'
import type { InputMessage } from './messages.js'
import type { chatBody, completionBody } from './schema.js'

/** The chat request every API is put into. */
export type ChatBody = Omit<FromSchema<typeof chatBody>, 'messages'> & { messages: InputMessage[] }
/** A request for text completion. */
export type CompletionBody = FromSchema<typeof completionBody>

/** Old or foreign fields that would change the answer, and what to send instead. */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  functions: 'is not served; send tools', function_call: 'is not served; send tool_choice',
  audio: 'is not served: answers are text', prediction: 'is not served; leave it out',
  web_search_options: 'is not served; leave it out'
}

/** The sampling parameters of a request. */
function paramsOf (body: Pick<CompletionBody, 'logit_bias'>): Record<string, unknown> {
  return { ...samplingOf('chat', body), ...body.logit_bias == null ? {} : { logit_bias: body.logit_bias } }
}

function lengthsOf (
  body: Pick<CompletionBody, 'max_tokens' | 'stop' | 'n'>, limits: Limits, max = body.max_tokens
): Record<string, unknown> {
  const stop = body.stop == null ? [] : [body.stop].flat() as string[]
  atMost('stop', stop.length, limits.max_stops, 'texts')
  const n = body.n ?? 1
  if (n > limits.max_answers) throw refused('n', `is ${n}; at most ${limits.max_answers} are made at once`)
  return { n, stop, ...max == null ? {} : { max_tokens: max } }
}

/** The model a name stands for. */
export function renamed (aliases: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(aliases, name) ? aliases[name]! : name
}

/** A chat request as a task. Throws `invalid_request` for what is refused, naming the field. */
export function chatTask (body: ChatBody, limits: Limits, aliases: Readonly<Record<string, string>>): Asked {
  refuseUnsupported(body)
  atMost('messages', body.messages.length, limits.max_messages, 'messages')
  const tools = toolsOf(body, limits)
  const payload: Record<string, unknown> = {
    messages: toMessages(body.messages),
    ...lengthsOf(body, limits, body.max_completion_tokens ?? body.max_tokens),
    params: { ...paramsOf(body), ...logprobsOf(body), ...grammarOf(body, tools, limits) },
    markers: MARKERS
  }
  if (tools.length > 0) payload['tools'] = tools
  const variables = templateVariables(body)
  if (Object.keys(variables).length > 0) payload['template_variables'] = variables
  const mostCalls = body.parallel_tool_calls === false ? 1 : Infinity
  return {
    modelId: renamed(aliases, body.model),
    capability: 'chat',
    task: { kind: 'chat', payload },
    reading: { parse: true, tools: tools.length > 0, mostCalls }
  }
}

function refuseUnsupported (body: ChatBody): void {
  const given = body as unknown as Record<string, unknown>
  for (const [field, why] of Object.entries(UNSUPPORTED)) {
    if (Object.hasOwn(given, field) && given[field] != null) throw refused(field, why)
  }
  const modalities = given['modalities']
  if (Array.isArray(modalities) && modalities.some((modality) => modality !== 'text')) {
    throw refused('modalities', 'may be ["text"] only: answers are text')
  }
}

type Tools = NonNullable<ChatBody['tools']>

function toolsOf (body: ChatBody, limits: Limits): Tools {
  const tools = body.tools ?? []
  atMost('tools', tools.length, limits.max_tools, 'tools')
  for (const [i, tool] of tools.entries()) {
    checkSchema(`tools.${i}.function.parameters`, tool.function.parameters, limits)
  }
  const choice = body.tool_choice
  if (choice === 'none') return []
  if (typeof choice === 'string' && !['auto', 'required'].includes(choice)) {
    throw refused('tool_choice', 'must be "none", "auto", "required" or a function')
  }
  if (choice != null && choice !== 'auto' && tools.length === 0) {
    throw refused('tool_choice', 'needs tools, and there are none')
  }
  const wanted = typeof choice === 'object' && choice !== null ? choice.function.name : undefined
  if (wanted !== undefined && !tools.some((tool) => tool.function.name === wanted)) {
    throw refused('tool_choice.function.name', `"${wanted.slice(0, 64)}" is none of the tools`)
  }
  return tools
}

/** The shape the output is kept to: that of the tool calls, or that of the response format. */
function grammarOf (body: ChatBody, tools: Tools, limits: Limits): { grammar?: GrammarRequest } {
  const format = formatOf(body, limits)
  const choice = body.tool_choice ?? 'auto'
  if (tools.length === 0) return format === null ? {} : { grammar: format }
  if (format !== null && choice === 'auto') {
    throw refused('response_format', 'cannot be kept to while tools may be called; set tool_choice to ' +
      '"none" or "required", or leave one of them out')
  }
  return { grammar: { kind: 'tools', tools, choice } }
}

function formatOf ({ response_format: format }: ChatBody, limits: Limits): GrammarRequest | null {
  if (format == null || format.type === 'text') return null
  if (format.type === 'json_object') return { kind: 'json' }
  const given = format.json_schema
  if (given === undefined) throw refused('response_format.json_schema', 'is required')
  checkSchema('response_format.json_schema.schema', given.schema, limits)
  return { kind: 'schema', schema: given.schema }
}

function logprobsOf ({ logprobs, top_logprobs: top }: ChatBody): Record<string, unknown> {
  if (top != null && top > 0 && logprobs !== true) throw refused('top_logprobs', 'needs logprobs: true')
  return logprobs === true ? { logprobs: true, top_logprobs: top ?? 0 } : {}
}

/** What a template gets from the request itself and from the model's files. */
const RESERVED =
  /^(messages|tools|documents|add_generation_prompt|continue_final_message|\w+_token)$/

/** What a template may ask for beside the messages. */
function templateVariables (body: ChatBody): Record<string, unknown> {
  const effort = body.reasoning_effort
  const own = Object.keys(body.chat_template_kwargs ?? {}).find((name) => RESERVED.test(name))
  if (own !== undefined) {
    throw refused(`chat_template_kwargs.${own}`, 'is what the request or the model says itself; leave it out')
  }
  return {
    ...effort == null ? {} : { reasoning_effort: effort, enable_thinking: effort !== 'none' },
    ...body.chat_template_kwargs ?? {}
  }
}

/** A plain prompt as a task. Throws `invalid_request` for what is refused, naming the field. */
export function completionTask (
  body: CompletionBody, limits: Limits, aliases: Readonly<Record<string, string>>
): Asked {
  if (body.echo === true) throw refused('echo', 'is not served; put the prompt before the answer yourself')
  if ((body.best_of ?? 1) > 1) throw refused('best_of', 'is not served; ask for n answers and choose')
  if (body.suffix != null && body.suffix !== '') throw refused('suffix', 'is not served; leave it out')
  const logprobs = body.logprobs == null ? {} : { logprobs: true, top_logprobs: body.logprobs }
  const payload = {
    prompt: promptOf(body.prompt),
    ...lengthsOf(body, limits, body.max_tokens ?? DEFAULT_COMPLETION_TOKENS),
    params: { ...paramsOf(body), ...logprobs }
  }
  return {
    modelId: renamed(aliases, body.model),
    capability: 'completions',
    task: { kind: 'completion', payload },
    reading: { parse: false, tools: false, mostCalls: 0 }
  }
}

/** OpenAI's own default of this route. */
const DEFAULT_COMPLETION_TOKENS = 16

/** A text, or token ids; also as the only entry of a list. */
function promptOf (prompt: unknown): string | number[] {
  const isId = (id: unknown): boolean => Number.isSafeInteger(id) && id as number >= 0
  const only: unknown = Array.isArray(prompt) && prompt.length === 1 && !isId(prompt[0]) ? prompt[0] : prompt
  if (typeof only === 'string') return only
  if (Array.isArray(only) && only.length > 0 && only.every(isId)) return only as number[]
  throw refused('prompt', 'must be a text, or token ids, or a list with one of them')
}
