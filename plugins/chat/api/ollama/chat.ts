/** Ollama's API: POST /ollama/api/chat and /generate. */
import { badField, type FromSchema, type RouteRequest } from '../../../../kernel/index.js'
import { fieldsOf, isObject, present, parsed } from '../../../runners/language/json.js'
import { samplingOf } from '../../../runners/language/sampling.js'
import { answer } from '../answer.js'
import { withApiFieldNames } from '../errors.js'
import { plainImage, textUnlessImages, type VisionSupport } from '../images.js'
import {
  chatTask, completionTask, visionSupportOf, functionCall, functionTool, type VisionRules
} from '../request-to-task.js'
import { loadFor, loadOnly, unloadAfter, TEXT_TASKS } from './load.js'
import { canonical } from './names.js'
import { ollamaFailure } from '../../../staging/service.js'
import { Collector, type Totals, type CompleteChoice, type WholeCall } from '../pieces.js'
import type { ApiParts, AnswerFormat, AnswerMetadata, Formatter, Framing } from '../types.js'
import type { ChatBody, CompletionBody, InputMessage, Tool } from '../schema.js'
import type { chatBody, generateBody } from './body.js'
import type { TokenReport } from '../../../runners/language/chunks.js'

type OllamaChat = FromSchema<typeof chatBody>
type OllamaGenerate = FromSchema<typeof generateBody>
type Common = Pick<OllamaChat, 'model' | 'format' | 'think' | 'options' | 'logprobs' | 'top_logprobs'>
type Message = NonNullable<OllamaChat['messages']>[number]

/** Without messages the request only loads or unloads the model. */
export async function ollamaChat (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof chatBody }>
): Promise<unknown> {
  const body = withName(parts, request.body)
  if ((body.messages ?? []).length === 0) {
    return await loadOnly(parts, request, body, TEXT_TASKS, { message: { role: 'assistant', content: '' } })
  }
  const asked = withApiFieldNames(NAMES, () => chatTask(fromOllamaChat(body, parts), parts))
  const loadMs = await loadFor(parts, request, body, TEXT_TASKS)
  const shown = { ...asked, shownAs: request.body.model, loadMs }
  await answer(parts, request, shown, body.stream !== false, chatFormat)
  return await unloadAfter(parts, request, body)
}

/** Without a prompt the request only loads or unloads the model. */
export async function ollamaGenerate (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof generateBody }>
): Promise<unknown> {
  const body = withName(parts, request.body)
  if ((body.prompt ?? '') === '' && !any(body.images)) {
    return await loadOnly(parts, request, body, TEXT_TASKS, { response: '' })
  }
  const asked = withApiFieldNames(NAMES, () => body.raw === true
    ? completionTask(fromOllamaRaw(body), parts)
    : chatTask(fromOllamaGenerate(body, parts), parts))
  const loadMs = await loadFor(parts, request, body, TEXT_TASKS)
  const shown = { ...asked, shownAs: request.body.model, loadMs }
  await answer(parts, request, shown, body.stream !== false, generateFormat)
  return await unloadAfter(parts, request, body)
}

const withName = <B extends { model: string }>(parts: ApiParts, body: B): B =>
  ({ ...body, model: canonical(parts, body.model) })

/** Ollama's names for chat request fields. */
const NAMES = { response_format: 'format', stop: 'options.stop', max_tokens: 'options.num_predict' }

/** Converts a body to a chat request. Throws `invalid_request` naming the field. */
export function fromOllamaChat (body: OllamaChat, rules: VisionRules): ChatBody {
  const vision = visionSupportOf(rules, body.model)
  const messages = messagesOf(body.messages ?? [], vision)
  if (messages.at(-1)?.role === 'assistant') {
    throw badField('messages',
      'must end with a user or tool message: prefilled answers are not supported')
  }
  return { ...present({ tools: body.tools?.map(toolOf) }), ...commonOf(body), messages }
}

/** Converts Ollama's messages to the chat API's format. Throws `invalid_request`. */
function messagesOf (messages: readonly Message[], vision: VisionSupport): InputMessage[] {
  // Ollama's calls have no ids, so results belong to the preceding calls in order.
  const ids: CallIds = { made: 0, answered: 0 }
  return messages.map((message, i) => messageOf(message, ids, `messages.${i}`, vision))
}

interface CallIds { made: number, answered: number }

/** Like `fromOllamaChat`, but for a prompt that the model's template formats. */
export function fromOllamaGenerate (body: OllamaGenerate, rules: VisionRules): ChatBody {
  const system = body.system == null || body.system === '' ? [] : [{ role: 'system', content: body.system }]
  const content = withImages(body.prompt ?? '', body.images, 'images', visionSupportOf(rules, body.model))
  return { ...commonOf(body), messages: [...system, { role: 'user', content }] }
}

/** A prompt that bypasses the model's template (`raw`). */
export function fromOllamaRaw (body: OllamaGenerate): CompletionBody {
  if (formatOf(body.format) !== null) throw badField('format', 'is not served with raw: true')
  if (any(body.images)) throw badField('images', 'are not served with raw: true; leave raw out')
  const { model, prompt, options, logprobs, top_logprobs: top } = body
  return {
    model, prompt: prompt ?? '', max_tokens: -1, ...chatParameters(options),
    ...logprobs === true ? { logprobs: top ?? 0 } : {}
  }
}

type Images = readonly string[] | null | undefined
const any = (images: Images): images is readonly string[] => images != null && images.length > 0

/** A text with its images before it. Throws `invalid_request`. */
function withImages (text: string, images: Images, path: string, vision: VisionSupport): string | unknown[] {
  if (!any(images)) return text
  return textUnlessImages([
    ...images.map((data, i) => plainImage(data, `${path}.${i}`, vision)), { type: 'text', text }
  ])
}

function messageOf (message: Message, ids: CallIds, path: string, vision: VisionSupport): InputMessage {
  const { role, content, thinking, images, tool_name: tool, tool_calls: given } = message
  if (role !== 'user' && any(images)) {
    throw badField(`${path}.images`, 'are allowed in user messages only')
  }
  const calls = (given ?? []).map(({ function: { name, arguments: input } }) =>
    functionCall(`call_${ids.made++}`, name, JSON.stringify(input ?? {})))
  return {
    role,
    content: content == null && calls.length > 0
      ? null
      : withImages(content ?? '', images, `${path}.images`, vision),
    ...present({
      reasoning_content: thinking, name: tool,
      tool_calls: calls.length > 0 ? calls : null,
      tool_call_id: role === 'tool' ? `call_${ids.answered < ids.made ? ids.answered++ : ids.made}` : null
    })
  }
}

function toolOf (tool: Record<string, unknown>, i: number): Tool {
  const { name, description, parameters } = fieldsOf(tool['function'])
  if (typeof name !== 'string') throw badField(`tools.${i}.function.name`, 'is required')
  return functionTool(name, {
    description: typeof description === 'string' ? description : null,
    parameters: isObject(parameters) ? parameters : null
  })
}

/** Maps Ollama's parameters to chat request fields. */
function chatParameters (
  options: Common['options']
): Pick<ChatBody, 'temperature' | 'stop' | 'max_tokens' | 'repetition_penalty' | 'repeat_last_n'> {
  const { num_predict: most, stop } = options ?? {}
  // In Ollama, zero and below mean no limit.
  const max_tokens = most != null && most > 0 ? most : null
  return { ...samplingOf('ollama', options), ...present({ stop, max_tokens }) }
}

/** Converts the fields shared by chat and generate to chat request fields. */
function commonOf (
  { model, options, format, think, logprobs, top_logprobs }: Common
): Omit<ChatBody, 'messages'> {
  return {
    model,
    ...chatParameters(options),
    ...present({
      logprobs, top_logprobs, response_format: formatOf(format),
      reasoning_effort: typeof think === 'string' ? think : null,
      chat_template_kwargs: typeof think === 'boolean' ? { enable_thinking: think } : null
    })
  }
}

function formatOf (format: Common['format']): ChatBody['response_format'] {
  if (format == null || format === '') return null
  if (format === 'json') return { type: 'json_object' }
  if (typeof format === 'string') throw badField('format', 'must be "json" or a JSON Schema')
  return { type: 'json_schema', json_schema: { schema: format } }
}

/**
 * Newline-delimited JSON. It cannot carry comments as keep-alives, so a stream without output sends only its
 * headers.
 */
const framing: Framing = {
  contentType: 'application/x-ndjson',
  begin: () => '',
  value: (value) => `${JSON.stringify(value)}\n`,
  end: () => '',
  beat: '',
  failed: (error) => `${JSON.stringify(ollamaFailure(error))}\n`
}

type News = Pick<CompleteChoice, 'content' | 'reasoning' | 'calls' | 'tokens'>
/** Puts new content into the response field of the route: `message` or `response`. */
type Field = (news: News) => object

const NOTHING: News = { content: '', reasoning: '', calls: [], tokens: [] }

const chatField: Field = ({ content, reasoning: thinking, calls, tokens }) => ({
  message: {
    role: 'assistant', content,
    ...thinking === '' ? {} : { thinking },
    ...calls.length === 0 ? {} : { tool_calls: calls.map(callValue) }
  },
  ...logprobsOf(tokens)
})

const generateField: Field = ({ content, reasoning: thinking, tokens }) =>
  ({ response: content, ...thinking === '' ? {} : { thinking }, ...logprobsOf(tokens) })

const logprobsOf = (tokens: readonly TokenReport[]): object => tokens.length === 0 ? {} : { logprobs: tokens }

/** A tool call whose arguments were cut off gets `{}` as arguments. */
const callValue = ({ name, arguments: json }: WholeCall): object =>
  ({ function: { name, arguments: fieldsOf(parsed(json)) } })

const headOf = ({ model, created }: AnswerMetadata): object =>
  ({ model, created_at: new Date(created * 1000).toISOString() })

const NANOSECONDS = 1e9
const took = (tokens: number, rate: number): number => rate > 0 ? Math.round(tokens / rate * NANOSECONDS) : 0

function ending (facts: AnswerMetadata, totals: Totals, { finish }: CompleteChoice): object {
  const { promptTokens, completionTokens, cachedTokens, promptRate, generationRate } = totals
  return {
    done: true, done_reason: finish === 'length' ? 'length' : 'stop',
    total_duration: Math.round(facts.elapsedMs() * 1e6), load_duration: Math.round(facts.loadMs * 1e6),
    prompt_eval_count: promptTokens, prompt_eval_duration: took(promptTokens - cachedTokens, promptRate),
    eval_count: completionTokens, eval_duration: took(completionTokens, generationRate)
  }
}

/** The lines of a stream. Ollama's API has no tool call deltas, so a call is sent once it is complete. */
function linesFormatter (facts: AnswerMetadata, field: Field): Formatter {
  const answer = new Collector()
  return {
    begin: () => [],
    piece (piece) {
      answer.add(piece)
      const news = piece.kind === 'text' ? { ...piece, calls: [] } : { ...NOTHING, calls: answer.only.calls }
      const { content, reasoning, calls, tokens } = news
      if (content === '' && reasoning === '' && calls.length === 0 && tokens.length === 0) return []
      return [{ ...headOf(facts), ...field(news), done: false }]
    },
    end: (totals) => [{ ...headOf(facts), ...field(NOTHING), ...ending(facts, totals, answer.only) }]
  }
}

const answerFormat = (field: Field): AnswerFormat => ({
  framing,
  formatter: (facts) => linesFormatter(facts, field),
  whole: ({ only, totals }, facts) => ({ ...headOf(facts), ...field(only), ...ending(facts, totals, only) })
})

export const chatFormat = answerFormat(chatField)
const generateFormat = answerFormat(generateField)
