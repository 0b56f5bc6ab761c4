/**
 * Bodies of Anthropic's API. Unknown fields are ignored and named in a header.
 */
import { strictFields } from '../../runners/language/sampling.js'
import { BODY_BYTES, ignored, name, optional, refusedField, text, typed } from './fields.js'
import type { FromSchema } from '../../../kernel/index.js'

const blocks = { type: ['string', 'array'], maxLength: BODY_BYTES, items: typed } as const

const tool = {
  type: 'object', required: ['name'],
  properties: {
    type: { type: ['string', 'null'], description: 'custom ones only' },
    name, description: text, input_schema: { type: 'object' },
    strict: ignored('arguments are always kept to the schema'),
    cache_control: ignored('the cache finds prompts by what they begin with'),
    eager_input_streaming: ignored('arguments are always streamed as they are written'),
    input_examples: refusedField('are not served: put them into the description', []),
    defer_loading: refusedField('is not served: send the tools the model is to have', false),
    allowed_callers: refusedField('may be ["direct"] only', ['direct'])
  }
} as const

const format = {
  type: ['object', 'null'], required: ['type', 'schema'],
  properties: { type: { const: 'json_schema' }, schema: { type: 'object' } }
} as const

/** What an answer is made of, and its count of tokens. */
const shared = {
  model: name,
  messages: {
    type: 'array', minItems: 1,
    items: {
      type: 'object', required: ['role', 'content'],
      properties: {
        role: {
          enum: ['user', 'assistant', 'system'],
          description: 'system: instructions from there on, where the model\'s template has room for them'
        },
        content: blocks
      }
    },
    description: 'the last one is of the user: an answer cannot be begun for the model'
  },
  system: blocks,
  tools: { type: 'array', items: tool },
  tool_choice: {
    type: 'object', required: ['type'],
    properties: {
      type: { enum: ['auto', 'any', 'tool', 'none'] }, name, disable_parallel_tool_use: { type: 'boolean' }
    }
  },
  thinking: {
    type: 'object', required: ['type'],
    properties: {
      type: { enum: ['enabled', 'disabled', 'adaptive'] },
      budget_tokens: ignored('it is a most that models stay below; max_tokens bounds thinking too'),
      display: refusedField('may be "summarized" only: thinking is shown as it is', 'summarized')
    }
  },
  output_config: {
    type: ['object', 'null'],
    properties: {
      format, effort: optional('string'),
      task_budget: refusedField('is not served; max_tokens bounds an answer')
    }
  },
  output_format: { ...format, description: 'the older name of output_config.format' },
  cache_control: ignored('the cache finds prompts by what they begin with'),
  context_management: refusedField('is not served: send what the model is to read',
    { edits: [] }, { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }),
  mcp_servers: refusedField('are not served: give the model their tools as tools', []),
  speed: ignored('there is one speed')
} as const

/** Body of POST /v1/messages. */
export const messagesBody = {
  type: 'object', required: ['model', 'max_tokens', 'messages'],
  properties: {
    ...shared,
    max_tokens: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
    stop_sequences: { type: 'array', items: name },
    ...strictFields('anthropic'),
    stream: { type: 'boolean' },
    thread: {
      type: ['object', 'null'], required: ['type'],
      properties: { type: { enum: ['create', 'continue'] }, previous_message_id: name },
      description: 'kept in the memory of the node that is asked'
    },
    metadata: ignored('names the end user for checks of abuse that nobody makes here'),
    service_tier: ignored('there is one tier'),
    inference_geo: ignored('an answer is made where the cluster is'),
    diagnostics: ignored('it compares with an earlier request for the cache\'s sake'),
    billing_policy: ignored('nothing is billed'),
    fallback_credit_token: ignored('nothing is billed'),
    fallbacks: refusedField('are not served: another model is another request', []),
    compaction: refusedField('is not served: send what the model is to read'),
    container: refusedField('is not served: nothing is run here')
  }
} as const

/** Body of POST /v1/messages/count_tokens. */
export const countBody = {
  type: 'object', required: ['model', 'messages'], properties: shared
} as const

/** A valid body of POST /v1/messages. */
export type MessagesBody = FromSchema<typeof messagesBody>

/** What is kept of a conversation under the id of its last answer. */
export type Thread = Pick<MessagesBody, 'messages' | 'system' | 'tools'>
