/**
 * Request bodies for OpenAI's chat and completion routes. Unknown fields are ignored and named in a header,
 * since clients also send fields meant for other servers; null means absent.
 */
import { nullableFields } from '../../runners/language/sampling.js'
import {
  BODY_BYTES, ignored, longText, name, optional, optionalText, refusedField, text, typed, nullableInteger
} from './fields.js'
import type { FromSchema } from '../../../kernel/index.js'

/** Token limit; -1 means no limit, as in llama.cpp's server. */
const mostTokens =
  { ...nullableInteger(-1), description: '1 and more; -1: as many as there is room for' } as const

const range = (minimum: number, maximum: number) => ({ type: ['number', 'null'], minimum, maximum }) as const
const MOST = 2 ** 31 - 1
const MOST_GRAMMAR_CHARS = 65_536
const OF_PLACEMENT = 'is not served: placement decides how a model runs'

/**
 * Fields from llama.cpp's server, passed on to engines that support them. The explicit list keeps out fields
 * that name a slot, a file or an adapter.
 */
export const llamaFields = {
  repeat_penalty: { ...range(0.01, 100), description: 'the same as repetition_penalty' },
  n_predict: { ...nullableInteger(-1), description: 'the same as max_tokens' },
  n_probs: { ...nullableInteger(0, 20), description: 'the same as logprobs with top_logprobs' },
  min_keep: nullableInteger(0, MOST), typical_p: range(0, 1), top_n_sigma: range(-1, 100),
  dynatemp_range: range(0, 100), dynatemp_exponent: range(0, 100), xtc_probability: range(0, 1),
  xtc_threshold: range(0, 1), dry_multiplier: range(0, 100), dry_base: range(0, 100),
  dry_allowed_length: nullableInteger(0, MOST), dry_penalty_last_n: nullableInteger(-1, MOST),
  dry_sequence_breakers: { type: ['array', 'null'], maxItems: 64, items: { type: 'string', maxLength: 256 } },
  mirostat: nullableInteger(0, 2), mirostat_tau: range(0, 100), mirostat_eta: range(0, 1),
  samplers: {
    type: ['array', 'string', 'null'], maxItems: 32, maxLength: 64, items: { type: 'string', maxLength: 64 }
  },
  ignore_eos: optional('boolean'), cache_prompt: optional('boolean'),
  grammar: { type: ['string', 'null'], maxLength: MOST_GRAMMAR_CHARS, description: 'GBNF' },
  json_schema: { ...optional('object'), description: 'a schema that the answer is held to' }
} as const

/** Fields from llama.cpp's server that are refused: placement or `max_tokens` decides instead. */
const llamaRefused = {
  id_slot: refusedField(OF_PLACEMENT, -1), slot_id: refusedField(OF_PLACEMENT, -1),
  lora: refusedField(OF_PLACEMENT, []),
  t_max_predict_ms: refusedField('is not served; max_tokens limits an answer', 0, -1)
} as const

export const sampling = {
  extra_body: {
    ...optional('object'),
    description: 'fields that svc does not know, also those beside it, for models whose program knows more'
  },
  max_tokens: mostTokens, ...llamaFields, ...nullableFields('chat'),
  logit_bias: {
    type: ['object', 'null'], additionalProperties: { type: 'number', minimum: -100, maximum: 100 }
  },
  stop: { type: ['string', 'array', 'null'], minLength: 1, items: name },
  n: nullableInteger(1)
} as const

export const message = {
  type: 'object', required: ['role'],
  properties: {
    role: { enum: ['system', 'developer', 'user', 'assistant', 'tool'] },
    content: { type: ['string', 'array', 'null'], maxLength: BODY_BYTES, items: typed },
    refusal: { ...optionalText, description: 'the text of a message without content' },
    name: optional('string'), reasoning_content: optionalText, tool_call_id: optional('string'),
    tool_calls: {
      type: ['array', 'null'],
      items: {
        type: 'object', required: ['function'],
        properties: {
          id: { type: 'string' }, type: { const: 'function' },
          function: { type: 'object', required: ['name', 'arguments'], properties: { name, arguments: text } }
        }
      }
    }
  }
} as const

export const tool = {
  type: 'object', required: ['type', 'function'],
  properties: {
    type: { const: 'function' },
    function: {
      type: 'object', required: ['name'],
      properties: {
        name, description: optionalText, parameters: optional('object'), strict: optional('boolean')
      }
    }
  }
} as const

const responseFormat = {
  type: ['object', 'null'], required: ['type'],
  properties: {
    type: { enum: ['text', 'json_object', 'json_schema'] },
    schema: { ...optional('object'), description: 'of a json_object, as llama.cpp\'s server reads it' },
    json_schema: {
      type: 'object', required: ['schema'],
      properties: {
        name: { type: 'string' }, strict: optional('boolean'), schema: { type: ['object', 'boolean'] }
      }
    }
  }
} as const

export const chatFields = {
  ...sampling, model: name, messages: { type: 'array', minItems: 1, items: message },
  max_completion_tokens: mostTokens, logprobs: optional('boolean'), top_logprobs: nullableInteger(0, 20),
  response_format: responseFormat, tools: { type: ['array', 'null'], items: tool },
  tool_choice: {
    type: ['string', 'object', 'null'], required: ['type', 'function'],
    properties: {
      type: { const: 'function' }, function: { type: 'object', required: ['name'], properties: { name } }
    }
  },
  parallel_tool_calls: optional('boolean'), reasoning_effort: optional('string'),
  chat_template_kwargs: optional('object')
} as const

/** OpenAI's fields that do not affect the answer. */
export const openAiExtras = {
  user: { ...optionalText, description: 'as prompt_cache_key, if the request has no other id' },
  safety_identifier: ignored('the newer name of user'),
  prompt_cache_key: { ...optionalText, description: 'leads requests with the same key to the same instance' },
  prompt_cache_retention: ignored('cached prompts stay until their memory is needed'),
  prompt_cache_options: ignored('the cache matches prompts by their prefix'),
  service_tier: ignored('there is only one tier'),
  moderation: refusedField('is not served: svc does not moderate inputs or answers')
} as const

/** Structured output fields from other servers; refused, since answers that ignore them would be useless. */
const forms = Object.fromEntries(
  ['guided_json', 'guided_regex', 'guided_choice', 'guided_grammar', 'structured_outputs']
    .map((field) => [field, refusedField('is not served; POST /v1/chat/completions has response_format')]))

/** LM Studio's field. */
const ttl = {
  ...nullableInteger(1, 2_592_000), description: 'idle seconds after which a model that it loads is unloaded'
} as const

const streaming = {
  stream: optional('boolean'),
  stream_options: {
    type: ['object', 'null'],
    properties: {
      include_usage: optional('boolean'),
      include_obfuscation: ignored('it pads chunks to hide their length on an encrypted connection')
    }
  }
} as const

/** Body of POST /v1/chat/completions. */
export const chatBody = {
  type: 'object', required: ['model', 'messages'],
  properties: {
    ...chatFields, ...streaming, ...forms, ...llamaRefused, ...openAiExtras, ttl,
    store: ignored('svc does not store chat completions'),
    metadata: ignored('it labels stored completions, and svc stores none'),
    prediction: ignored('it only speeds up the same answer'),
    verbosity: ignored('the length of an answer follows the messages'),
    modalities: refusedField('may be ["text"] only: answers are text', ['text'], []),
    audio: refusedField('is not served: answers are text'),
    functions: refusedField('is not served; send tools', []),
    function_call: refusedField('is not served; send tool_choice', 'none'),
    web_search_options: refusedField('is not served: svc does not search; send a search tool')
  }
} as const

/** Body of POST /v1/completions. */
export const completionBody = {
  type: 'object', required: ['model', 'prompt'],
  properties: {
    ...sampling, ...streaming, ...forms, ...llamaRefused, ...openAiExtras, model: name, ttl,
    prompt: {
      type: ['string', 'array'], ...longText,
      description: 'a text, token ids, or a list of either; a list runs in parallel, with at most ' +
        'plugins.chat.max_answers answers at a time'
    },
    logprobs: nullableInteger(0, 5),
    echo: { ...optional('boolean'), description: 'only for texts, and not with logprobs' },
    best_of: refusedField('is not served; request n answers and choose', 1),
    suffix: refusedField('is not served: there is no fill-in-the-middle', '')
  }
} as const

/** A message as a client sends it; null means absent. */
export interface InputMessage {
  role: string, content?: string | unknown[] | null, refusal?: string | null, name?: string | null
  reasoning_content?: string | null, tool_call_id?: string | null, tool_calls?: unknown[] | null
}

/** The chat request that every API converts to. */
export type ChatBody = Omit<FromSchema<typeof chatBody>, 'messages'> & { messages: InputMessage[] }
export type CompletionBody = FromSchema<typeof completionBody>
export type Tool = NonNullable<ChatBody['tools']>[number]
