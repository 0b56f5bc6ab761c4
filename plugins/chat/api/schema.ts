/**
 * Bodies of OpenAI's chat and completion routes. Unknown fields are ignored and named in a header, since
 * clients send those of other servers too; null is as good as absent.
 */
import { nullableFields } from '../../runners/language/sampling.js'
import {
  BODY_BYTES, ignored, longText, name, optional, optionalText, refusedField, text, typed, nullableInteger
} from './fields.js'
import type { FromSchema } from '../../../kernel/index.js'

/** As many tokens as there is room for: -1, as in llama.cpp's server. */
const mostTokens =
  { ...nullableInteger(-1), description: '1 and more; -1: as many as there is room for' } as const

const range = (minimum: number, maximum: number) => ({ type: ['number', 'null'], minimum, maximum }) as const
const MOST = 2 ** 31 - 1
const MOST_GRAMMAR_CHARS = 65_536
const OF_PLACEMENT = 'is not served: how a model is run is decided when it is placed'

/**
 * Fields of llama.cpp's server: passed on to engines that know them. Each is listed, so that none reaches the
 * server that names a slot, a file or an adapter.
 */
export const llamaFields = {
  repeat_penalty: { ...range(0.01, 100), description: 'the same as repetition_penalty' },
  n_predict: { ...nullableInteger(-1), description: 'the same as max_tokens' },
  n_probs: { ...nullableInteger(0, 20), description: 'the same as logprobs with top_logprobs' },
  min_keep: nullableInteger(0, MOST),
  typical_p: range(0, 1),
  top_n_sigma: range(-1, 100),
  dynatemp_range: range(0, 100),
  dynatemp_exponent: range(0, 100),
  xtc_probability: range(0, 1),
  xtc_threshold: range(0, 1),
  dry_multiplier: range(0, 100),
  dry_base: range(0, 100),
  dry_allowed_length: nullableInteger(0, MOST),
  dry_penalty_last_n: nullableInteger(-1, MOST),
  dry_sequence_breakers: {
    type: ['array', 'null'], maxItems: 64, items: { type: 'string', maxLength: 256 }
  },
  mirostat: nullableInteger(0, 2),
  mirostat_tau: range(0, 100),
  mirostat_eta: range(0, 1),
  samplers: {
    type: ['array', 'string', 'null'], maxItems: 32, maxLength: 64, items: { type: 'string', maxLength: 64 }
  },
  ignore_eos: optional('boolean'),
  cache_prompt: optional('boolean'),
  grammar: { type: ['string', 'null'], maxLength: MOST_GRAMMAR_CHARS, description: 'GBNF' },
  json_schema: { ...optional('object'), description: 'a schema that the answer is held to' }
} as const

/** Fields of that server that reach beyond the request. */
const llamaRefused = {
  id_slot: refusedField(OF_PLACEMENT, -1),
  slot_id: refusedField(OF_PLACEMENT, -1),
  lora: refusedField(OF_PLACEMENT, []),
  t_max_predict_ms: refusedField('is not served; max_tokens bounds an answer', 0, -1)
} as const

/** Fields that say how tokens are chosen. */
export const sampling = {
  max_tokens: mostTokens,
  ...llamaFields,
  ...nullableFields('chat'),
  logit_bias: {
    type: ['object', 'null'], additionalProperties: { type: 'number', minimum: -100, maximum: 100 }
  },
  stop: { type: ['string', 'array', 'null'], minLength: 1, items: name },
  n: nullableInteger(1)
} as const

/** A message of a conversation. */
export const message = {
  type: 'object', required: ['role'],
  properties: {
    role: { enum: ['system', 'developer', 'user', 'assistant', 'tool'] },
    content: { type: ['string', 'array', 'null'], maxLength: BODY_BYTES, items: typed },
    refusal: { ...optionalText, description: 'the text of a message without content' },
    name: optional('string'),
    reasoning_content: optionalText,
    tool_call_id: optional('string'),
    tool_calls: {
      type: ['array', 'null'],
      items: {
        type: 'object', required: ['function'],
        properties: {
          id: { type: 'string' },
          type: { const: 'function' },
          function: {
            type: 'object', required: ['name', 'arguments'],
            properties: { name, arguments: text }
          }
        }
      }
    }
  }
} as const

/** A tool that a model may call. */
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

/** Fields of a chat request that reach the model. */
export const chatFields = {
  ...sampling,
  model: name,
  messages: { type: 'array', minItems: 1, items: message },
  max_completion_tokens: mostTokens,
  logprobs: optional('boolean'),
  top_logprobs: nullableInteger(0, 20),
  response_format: responseFormat,
  tools: { type: ['array', 'null'], items: tool },
  tool_choice: {
    type: ['string', 'object', 'null'], required: ['type', 'function'],
    properties: {
      type: { const: 'function' }, function: { type: 'object', required: ['name'], properties: { name } }
    }
  },
  parallel_tool_calls: optional('boolean'),
  reasoning_effort: optional('string'),
  chat_template_kwargs: optional('object')
} as const

/** Fields of OpenAI's that say nothing of the answer. */
export const openAiExtras = {
  user: ignored('names the end user for checks of abuse that nobody makes here'),
  safety_identifier: ignored('the same under its newer name'),
  prompt_cache_key: ignored('the cache finds prompts by what they begin with'),
  prompt_cache_retention: ignored('what is cached stays until its room is needed'),
  prompt_cache_options: ignored('the cache finds prompts by what they begin with'),
  service_tier: ignored('there is one tier'),
  moderation: refusedField('is not served: nothing judges inputs or answers here')
} as const

/** Fields of other servers that bind the answer to a form: without it the answer is of no use. */
const forms = Object.fromEntries(
  ['guided_json', 'guided_regex', 'guided_choice', 'guided_grammar', 'structured_outputs']
    .map((field) => [field, refusedField('is not served; POST /v1/chat/completions has response_format')]))

const streaming = {
  stream: optional('boolean'),
  stream_options: {
    type: ['object', 'null'],
    properties: {
      include_usage: optional('boolean'),
      include_obfuscation: ignored('it pads chunks against listeners of an encrypted line')
    }
  }
} as const

/** Body of POST /v1/chat/completions. */
export const chatBody = {
  type: 'object', required: ['model', 'messages'],
  properties: {
    ...chatFields,
    ...streaming,
    ...forms,
    ...llamaRefused,
    ...openAiExtras,
    store: ignored('it is about what is kept afterwards: nothing is'),
    metadata: ignored('labels of what is kept afterwards: nothing is'),
    prediction: ignored('it only makes the same answer come sooner'),
    verbosity: refusedField('is not served: say in the messages how long the answer is to be', 'medium'),
    modalities: refusedField('may be ["text"] only: answers are text', ['text'], []),
    audio: refusedField('is not served: answers are text'),
    functions: refusedField('is not served; send tools', []),
    function_call: refusedField('is not served; send tool_choice', 'none'),
    web_search_options: refusedField('is not served: nothing is searched; give the model a tool')
  }
} as const

/** Body of POST /v1/completions. */
export const completionBody = {
  type: 'object', required: ['model', 'prompt'],
  properties: {
    ...sampling,
    ...streaming,
    ...forms,
    ...llamaRefused,
    ...openAiExtras,
    model: name,
    prompt: {
      type: ['string', 'array'], ...longText,
      description: 'a text, token ids, or a list of either, of which as many are answered at once as there ' +
        'may be answers, plugins.chat.max_answers'
    },
    logprobs: nullableInteger(0, 5),
    echo: { ...optional('boolean'), description: 'not with logprobs, and of texts only' },
    best_of: refusedField('is not served; ask for n answers and choose', 1),
    suffix: refusedField('is not served: nothing is filled in between two texts', '')
  }
} as const

/** A message as a client sends it; null is as good as absent. */
export interface InputMessage {
  role: string
  content?: string | unknown[] | null
  refusal?: string | null
  name?: string | null
  reasoning_content?: string | null
  tool_call_id?: string | null
  tool_calls?: unknown[] | null
}

/** The chat request every API is put into. */
export type ChatBody = Omit<FromSchema<typeof chatBody>, 'messages'> & { messages: InputMessage[] }
/** A request for text completion. */
export type CompletionBody = FromSchema<typeof completionBody>
/** A tool that a model may call. */
export type Tool = NonNullable<ChatBody['tools']>[number]
