/** Ollama's API below /ollama/api: chat, generate, and what models there are. */
import { kernelError } from '../../../kernel/index.js'
import { fieldsOf, isObject, parsed, present } from '../json.js'
import { nullableFields, samplingOf } from '../sampling.js'
import { answer } from './answer.js'
import { refused } from './errors.js'
import { Collector } from './pieces.js'
import { name, optional, sampling } from './schema.js'
import { plainImage, wholeOf } from './images.js'
import {
  chatTask, completionTask, eyesOf, functionCall, functionTool, modelOf
} from './task.js'
import type { ErrorBody, FromSchema, ModelCard } from '../../../kernel/index.js'
import type { AnswerFormat, ApiParts, Facts, Formatter, Framing, Handler } from './answer.js'
import type { Totals, Whole, WholeCall } from './pieces.js'
import type { Rules } from './errors.js'
import type { Eyes } from './images.js'
import type { ChatBody, CompletionBody, InputMessage, Tool } from './task.js'

const texts = { type: ['array', 'null'], items: { type: 'string' } } as const

/** Fields that both routes have. Unknown ones are ignored, also among the options. */
const common = {
  model: name,
  stream: optional('boolean'),
  format: { type: ['string', 'object', 'null'] },
  think: { type: ['boolean', 'string', 'null'] },
  options: {
    type: ['object', 'null'],
    properties: {
      ...nullableFields('ollama'),
      stop: sampling.stop,
      num_predict: { type: ['integer', 'null'], minimum: -2 }
    }
  }
} as const

/** Body of POST /ollama/api/chat. */
export const ollamaChatBody = {
  type: 'object', required: ['model', 'messages'],
  properties: {
    ...common,
    messages: {
      type: 'array', minItems: 1,
      items: {
        type: 'object', required: ['role'],
        properties: {
          role: { enum: ['system', 'user', 'assistant', 'tool'] },
          content: optional('string'),
          thinking: optional('string'),
          images: texts,
          tool_name: optional('string'),
          tool_calls: {
            type: ['array', 'null'],
            items: {
              type: 'object', required: ['function'],
              properties: {
                function: {
                  type: 'object', required: ['name'],
                  properties: { name, arguments: optional('object') }
                }
              }
            }
          }
        }
      }
    },
    tools: { type: ['array', 'null'], items: { type: 'object' } }
  }
} as const

/** Body of POST /ollama/api/generate. */
export const ollamaGenerateBody = {
  type: 'object', required: ['model', 'prompt'],
  properties: {
    ...common,
    prompt: { type: 'string', minLength: 1 },
    system: optional('string'),
    raw: optional('boolean'),
    suffix: optional('string'),
    template: optional('string'),
    images: texts,
    context: optional('array')
  }
} as const

/** Body of POST /ollama/api/show. */
export const ollamaShowBody = {
  type: 'object', properties: { model: name, name }
} as const

/** Valid bodies. */
export type OllamaChat = FromSchema<typeof ollamaChatBody>
export type OllamaGenerate = FromSchema<typeof ollamaGenerateBody>
type Common = Pick<OllamaChat, 'model' | 'format' | 'think' | 'options'>

/** POST /ollama/api/chat. */
export const ollamaChat: Handler<typeof ollamaChatBody> = async (parts, request) => {
  const { body } = request
  const asked = chatTask(fromOllamaChat(body, parts), parts)
  await answer(parts, request, asked, body.stream !== false, chatFormat)
}

/** POST /ollama/api/generate. */
export const ollamaGenerate: Handler<typeof ollamaGenerateBody> = async (parts, request) => {
  const { body } = request
  const asked = body.raw === true
    ? completionTask(fromOllamaRaw(body), parts)
    : chatTask(fromOllamaGenerate(body, parts), parts)
  await answer(parts, request, asked, body.stream !== false, generateFormat)
}

type Seeing = Pick<Rules, 'aliases' | 'sees'>

/** Throws `invalid_request` naming the field. */
export function fromOllamaChat (body: OllamaChat, rules: Seeing): ChatBody {
  const ids = new CallIds()
  const eyes = eyesOf(rules, body.model)
  const messages = body.messages.map((message, i) => messageOf(message, ids, `messages.${i}`, eyes))
  return { ...present({ tools: body.tools?.map(toolOf) }), ...commonOf(body), messages }
}

/** As `fromOllamaChat`, for a prompt that the model's template is to frame. */
export function fromOllamaGenerate (body: OllamaGenerate, rules: Seeing): ChatBody {
  refuseForeign(body)
  const system = body.system == null ? [] : [{ role: 'system', content: body.system }]
  const content = withImages(body.prompt, body.images, 'images', eyesOf(rules, body.model))
  return { ...commonOf(body), messages: [...system, { role: 'user', content }] }
}

/** A prompt that is taken as it is (`raw`). */
export function fromOllamaRaw (body: OllamaGenerate): CompletionBody {
  refuseForeign(body)
  if (formatOf(body.format) !== null) throw refused('format', 'is not served with raw: true')
  if (any(body.images)) throw refused('images', 'are not served with raw: true; leave that out')
  const { model, prompt, options } = body
  return { model, prompt, max_tokens: Number.MAX_SAFE_INTEGER, ...optionsOf(options) }
}

function refuseForeign ({ suffix, template, context }: OllamaGenerate): void {
  if (suffix != null && suffix !== '') throw refused('suffix', 'is not served; leave it out')
  if (template != null && template !== '') throw refused('template', 'is not served: the model has its own')
  if (context != null && context.length > 0) throw refused('context', 'is not served; send messages to /chat')
}

/** Images beside a text, as this API has them. */
type Images = readonly string[] | null | undefined
const any = (images: Images): images is readonly string[] => images != null && images.length > 0

/** A text with the images that belong to it, which come before it. Throws `invalid_request`. */
function withImages (text: string, images: Images, path: string, eyes: Eyes): string | unknown[] {
  if (!any(images)) return text
  return wholeOf([
    ...images.map((data, i) => plainImage(data, `${path}.${i}`, eyes)), { type: 'text', text }
  ])
}

/** Ids for calls, which this API leaves out: results belong to the calls before them, in order. */
class CallIds {
  #made = 0
  #open: string[] = []

  next (): string {
    const id = `call_${this.#made++}`
    this.#open.push(id)
    return id
  }

  answered (): string { return this.#open.shift() ?? `call_${this.#made}` }
}

function messageOf (
  message: OllamaChat['messages'][number], ids: CallIds, path: string, eyes: Eyes
): InputMessage {
  const { role, content, thinking, images, tool_name: tool, tool_calls: given } = message
  if (role !== 'user' && any(images)) {
    throw refused(`${path}.images`, 'are read in messages of the user only')
  }
  const calls = (given ?? []).map(({ function: { name, arguments: input } }) =>
    functionCall(ids.next(), name, JSON.stringify(input ?? {})))
  return {
    role,
    content: content == null && calls.length > 0
      ? null
      : withImages(content ?? '', images, `${path}.images`, eyes),
    ...present({
      reasoning_content: thinking, name: tool,
      tool_calls: calls.length > 0 ? calls : null,
      tool_call_id: role === 'tool' ? ids.answered() : null
    })
  }
}

function toolOf (tool: Record<string, unknown>, i: number): Tool {
  const { name, description, parameters } = fieldsOf(tool['function'])
  if (typeof name !== 'string') throw refused(`tools.${i}.function.name`, 'is required')
  return functionTool(name, {
    description: typeof description === 'string' ? description : null,
    parameters: isObject(parameters) ? parameters : null
  })
}

/** What both routes ask for beside the messages. */
function commonOf ({ model, options, format, think }: Common): Omit<ChatBody, 'messages'> {
  return {
    model,
    ...optionsOf(options),
    ...present({
      response_format: formatOf(format),
      reasoning_effort: typeof think === 'string' ? think : null,
      chat_template_kwargs: typeof think === 'boolean' ? { enable_thinking: think } : null
    })
  }
}

function optionsOf (options: Common['options']): Omit<CompletionBody, 'model' | 'prompt' | 'logprobs'> {
  const { num_predict: most, stop } = options ?? {}
  // Zero and less mean: as much as there is room for.
  const max_tokens = most != null && most > 0 ? most : null
  return { ...samplingOf('ollama', options), ...present({ stop, max_tokens }) }
}

function formatOf (format: Common['format']): ChatBody['response_format'] {
  if (format == null || format === '') return null
  if (format === 'json') return { type: 'json_object' }
  if (typeof format === 'string') throw refused('format', 'must be "json" or a JSON Schema')
  return { type: 'json_schema', json_schema: { schema: format } }
}

/** `error` is a text for Ollama's clients; the rest of the one error body is beside it. */
export function ollamaFailure ({ error, detail }: ErrorBody): object {
  const { message, ...rest } = error
  return { error: message, ...rest, detail }
}

/**
 * One value on a line. Lines have no comments, and clients read every one of them: an open stream without
 * news is its head only.
 */
const framing: Framing = {
  contentType: 'application/x-ndjson',
  begin: () => '',
  value: (value) => `${JSON.stringify(value)}\n`,
  end: () => '',
  beat: '',
  failed: (error) => `${JSON.stringify(ollamaFailure(error))}\n`
}

/** What is new of an answer. */
type News = Pick<Whole, 'content' | 'reasoning' | 'calls'>
/** Where a route puts it. */
type Field = (news: News) => object

const NOTHING: News = { content: '', reasoning: '', calls: [] }

const chatField: Field = ({ content, reasoning: thinking, calls }) => ({
  message: {
    role: 'assistant', content,
    ...thinking === '' ? {} : { thinking },
    ...calls.length === 0 ? {} : { tool_calls: calls.map(callValue) }
  }
})

const generateField: Field = ({ content, reasoning: thinking }) =>
  ({ response: content, ...thinking === '' ? {} : { thinking } })

/** A call that was cut off has no arguments that can be read. */
const callValue = ({ name, arguments: json }: WholeCall): object =>
  ({ function: { name, arguments: fieldsOf(parsed(json)) } })

const headOf = ({ model, created }: Facts): object =>
  ({ model, created_at: new Date(created * 1000).toISOString() })

const NANOSECONDS = 1e9
const took = (tokens: number, rate: number): number => rate > 0 ? Math.round(tokens / rate * NANOSECONDS) : 0

function ending (facts: Facts, totals: Totals, { finish }: Whole): object {
  const { promptTokens, completionTokens, cachedTokens, promptRate, generationRate } = totals
  return {
    done: true,
    done_reason: finish === 'length' ? 'length' : 'stop',
    total_duration: Math.round(facts.elapsedMs() * 1e6),
    load_duration: 0,
    prompt_eval_count: promptTokens,
    prompt_eval_duration: took(promptTokens - cachedTokens, promptRate),
    eval_count: completionTokens,
    eval_duration: took(completionTokens, generationRate)
  }
}

/** The lines of a stream. A call comes when it is complete: this API has no pieces of them. */
function linesFormatter (facts: Facts, field: Field): Formatter {
  const answer = new Collector()
  return {
    begin: () => [],
    piece (piece) {
      answer.add(piece)
      const news = piece.kind === 'text' ? { ...piece, calls: [] } : { ...NOTHING, calls: answer.only.calls }
      if (news.content === '' && news.reasoning === '' && news.calls.length === 0) return []
      return [{ ...headOf(facts), ...field(news), done: false }]
    },
    end: (totals) => [{ ...headOf(facts), ...field(NOTHING), ...ending(facts, totals, answer.only) }]
  }
}

const answerFormat = (field: Field): AnswerFormat => ({
  framing,
  formatter: (facts) => linesFormatter(facts, field),
  whole: ({ only, totals }, facts) =>
    ({ ...headOf(facts), ...field(only), ...ending(facts, totals, only) })
})

const chatFormat = answerFormat(chatField)
const generateFormat = answerFormat(generateField)

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
  const card = parts.runners.card(modelOf(parts, named))
  if (card !== undefined) return shownModel(card)
  throw kernelError('no_instance', `No model ${named} is known here.`, { model: named })
}

/** Cards name no time; clients want one. */
const NO_TIME = '1970-01-01T00:00:00Z'

const detailsOf = ({ family, quantization }: ModelCard): object => ({
  parent_model: '', format: 'onnx', family, families: [family], parameter_size: '',
  quantization_level: quantization ?? ''
})

/** A model as GET /ollama/api/tags and /ps list it. */
function listedModel (card: ModelCard): Record<string, unknown> {
  const { modelId, totalBytes: size, revision: digest } = card
  return { name: modelId, model: modelId, size, digest, modified_at: NO_TIME, details: detailsOf(card) }
}

/** A model as POST /ollama/api/show answers it. */
function shownModel (card: ModelCard): object {
  const { family, contextLength, licence, support, hiddenSize, nLayers } = card
  const tools = support['tools']
  const canCall = tools !== undefined && !tools.startsWith('no effect')
  const task = card.tasks.includes('embeddings') ? 'embedding' : 'completion'
  return {
    license: licence, modelfile: '', parameters: '', template: '', modified_at: NO_TIME,
    details: detailsOf(card),
    model_info: {
      'general.architecture': family, [`${family}.context_length`]: contextLength,
      [`${family}.embedding_length`]: hiddenSize, [`${family}.block_count`]: nLayers
    },
    capabilities: [task, ...canCall ? ['tools'] : [], ...support['images'] === undefined ? [] : ['vision']]
  }
}
