/**
 * Bodies of OpenAI's chat and completion routes. Unknown fields are ignored and named in a header, since
 * clients send those of other servers too; null is as good as absent.
 */
import { nullableFields } from '../sampling.js'
import {
  BODY_BYTES, ignored, long, name, optional, optionalText, refusedField, text, typed, whole
} from './fields.js'

/** Fields that say how tokens are chosen. */
export const sampling = {
  max_tokens: whole(1),
  ...nullableFields('chat'),
  logit_bias: {
    type: ['object', 'null'], additionalProperties: { type: 'number', minimum: -100, maximum: 100 }
  },
  stop: { type: ['string', 'array', 'null'], minLength: 1, items: name },
  n: whole(1)
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
  max_completion_tokens: whole(1),
  logprobs: optional('boolean'),
  top_logprobs: whole(0, 20),
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
  ['guided_json', 'guided_regex', 'guided_choice', 'guided_grammar', 'structured_outputs', 'grammar']
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
    ...openAiExtras,
    model: name,
    prompt: {
      type: ['string', 'array'], ...long,
      description: 'a text, token ids, or a list of either, of which as many are answered at once as there ' +
        'may be answers, plugins.chat.max_answers'
    },
    logprobs: whole(0, 5),
    echo: { ...optional('boolean'), description: 'not with logprobs, and of texts only' },
    best_of: refusedField('is not served; ask for n answers and choose', 1),
    suffix: refusedField('is not served: nothing is filled in between two texts', '')
  }
} as const
