/** Requests of Ollama's API as chat requests. Pure. */
import { nullableFields, samplingOf } from '../sampling.js'
import { refused } from './errors.js'
import { sampling } from './schema.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { InputMessage } from './messages.js'
import type { ChatBody, CompletionBody } from './task.js'

const name = { type: 'string', minLength: 1 } as const
const texts = { type: ['array', 'null'], items: { type: 'string' } } as const

/** Fields that both routes have. Unknown ones are ignored, also among the options. */
const common = {
  model: name,
  stream: { type: ['boolean', 'null'] },
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
          content: { type: ['string', 'null'] },
          thinking: { type: ['string', 'null'] },
          images: texts,
          tool_name: { type: ['string', 'null'] },
          tool_calls: {
            type: ['array', 'null'],
            items: {
              type: 'object', required: ['function'],
              properties: {
                function: {
                  type: 'object', required: ['name'],
                  properties: { name, arguments: { type: ['object', 'null'] } }
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
    system: { type: ['string', 'null'] },
    raw: { type: ['boolean', 'null'] },
    suffix: { type: ['string', 'null'] },
    template: { type: ['string', 'null'] },
    images: texts,
    context: { type: ['array', 'null'] }
  }
} as const

/** Body of POST /ollama/api/show. */
export const ollamaShowBody = {
  type: 'object', properties: { model: name, name }
} as const

/** Requests as their schemas have let them through. */
export type OllamaChat = FromSchema<typeof ollamaChatBody>
export type OllamaGenerate = FromSchema<typeof ollamaGenerateBody>
type Common = Pick<OllamaChat, 'format' | 'think' | 'options'>

/** Throws `invalid_request` naming the field. */
export function fromOllamaChat (body: OllamaChat): ChatBody {
  const ids = new CallIds()
  return {
    model: body.model,
    messages: body.messages.map((message, i) => messageOf(message, ids, `messages.${i}`)),
    ...body.tools == null ? {} : { tools: body.tools.map(toolOf) },
    ...optionsOf(body.options),
    ...formatOf(body),
    ...thinkingOf(body.think)
  }
}

/** As `fromOllamaChat`, for a prompt that the model's template is to frame. */
export function fromOllamaGenerate (body: OllamaGenerate): ChatBody {
  refuseForeign(body)
  const system = body.system == null ? [] : [{ role: 'system', content: body.system }]
  return {
    model: body.model,
    messages: [...system, { role: 'user', content: body.prompt }],
    ...optionsOf(body.options),
    ...formatOf(body),
    ...thinkingOf(body.think)
  }
}

/** A prompt that is taken as it is (`raw`). */
export function fromOllamaRaw (body: OllamaGenerate): CompletionBody {
  refuseForeign(body)
  if (formatOf(body).response_format !== undefined) throw refused('format', 'is not served with raw: true')
  const { max_tokens: most = Number.MAX_SAFE_INTEGER, ...options } = optionsOf(body.options)
  return { model: body.model, prompt: body.prompt, max_tokens: most, ...options }
}

function refuseForeign ({ suffix, template, images, context }: OllamaGenerate): void {
  if (suffix != null && suffix !== '') throw refused('suffix', 'is not served; leave it out')
  if (template != null && template !== '') throw refused('template', 'is not served: the model has its own')
  if (context != null && context.length > 0) throw refused('context', 'is not served; send messages to /chat')
  noImages(images, 'images')
}

function noImages (images: readonly string[] | null | undefined, path: string): void {
  if (images == null || images.length === 0) return
  throw refused(path, 'has images; language models here read text only')
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

function messageOf (message: OllamaChat['messages'][number], ids: CallIds, path: string): InputMessage {
  const { role, content, thinking, images, tool_name: tool, tool_calls: calls } = message
  noImages(images, `${path}.images`)
  const made = (calls ?? []).map(({ function: { name, arguments: input } }) => ({
    id: ids.next(), type: 'function', function: { name, arguments: JSON.stringify(input ?? {}) }
  }))
  return {
    role,
    content: content ?? (made.length > 0 ? null : ''),
    ...thinking == null ? {} : { reasoning_content: thinking },
    ...made.length === 0 ? {} : { tool_calls: made },
    ...role === 'tool' ? { tool_call_id: ids.answered() } : {},
    ...tool == null ? {} : { name: tool }
  }
}

function toolOf (tool: Record<string, unknown>, i: number): NonNullable<ChatBody['tools']>[number] {
  const given = tool['function'] as Record<'name' | 'description' | 'parameters', unknown> | undefined
  if (typeof given?.name !== 'string') throw refused(`tools.${i}.function.name`, 'is required')
  const { name, description, parameters } = given
  return {
    type: 'function',
    function: {
      name,
      ...typeof description === 'string' ? { description } : {},
      ...typeof parameters === 'object' && parameters !== null ? { parameters: parameters } : {}
    }
  } as NonNullable<ChatBody['tools']>[number]
}

type Options = Partial<Omit<CompletionBody, 'model' | 'prompt' | 'logprobs'>>

function optionsOf (options: Common['options']): Options {
  const { num_predict: most, stop } = options ?? {}
  return {
    ...samplingOf('ollama', options),
    ...stop == null ? {} : { stop },
    // Zero and less mean: as much as there is room for.
    ...most == null || most <= 0 ? {} : { max_tokens: most }
  }
}

function formatOf ({ format }: Pick<Common, 'format'>): Pick<ChatBody, 'response_format'> {
  if (format == null || format === '') return {}
  if (format === 'json') return { response_format: { type: 'json_object' } }
  if (typeof format === 'string') throw refused('format', 'must be "json" or a JSON Schema')
  return { response_format: { type: 'json_schema', json_schema: { schema: format } } }
}

function thinkingOf (think: Common['think']): Pick<ChatBody, 'chat_template_kwargs' | 'reasoning_effort'> {
  if (think == null) return {}
  if (typeof think === 'string') return { reasoning_effort: think }
  return { chat_template_kwargs: { enable_thinking: think } }
}
