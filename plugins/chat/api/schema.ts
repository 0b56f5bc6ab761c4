/** Bodies of OpenAI's chat and completion routes. Unknown fields are ignored, null is as good as absent. */
import { nullableFields } from '../sampling.js'

/** A text that is not empty. */
export const name = { type: 'string', minLength: 1 } as const
/** A field where null is as good as absent. */
export const optional = <const T extends string>(type: T) => ({ type: [type, 'null'] }) as const
const whole = (minimum: number, maximum = Number.MAX_SAFE_INTEGER) =>
  ({ type: ['integer', 'null'], minimum, maximum }) as const

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
    content: { type: ['string', 'array', 'null'], items: { type: 'object', required: ['type'] } },
    name: optional('string'),
    reasoning_content: optional('string'),
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
            properties: { name, arguments: { type: 'string' } }
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
        name, description: optional('string'), parameters: optional('object'), strict: optional('boolean')
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

const streaming = {
  stream: optional('boolean'),
  stream_options: { type: ['object', 'null'], properties: { include_usage: optional('boolean') } },
  user: optional('string')
} as const

/** Body of POST /v1/chat/completions. */
export const chatBody = {
  type: 'object', required: ['model', 'messages'],
  properties: { ...chatFields, ...streaming }
} as const

/** Body of POST /v1/completions. */
export const completionBody = {
  type: 'object', required: ['model', 'prompt'],
  properties: {
    ...sampling,
    ...streaming,
    model: name,
    prompt: { type: ['string', 'array'] },
    logprobs: whole(0, 5),
    echo: optional('boolean'),
    best_of: whole(1),
    suffix: optional('string')
  }
} as const
