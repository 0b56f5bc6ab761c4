/** Request bodies for Anthropic's API. Unknown fields are ignored and named in a header. */
import { strictFields } from '../../runners/language/sampling.js'
import { BODY_BYTES, ignored, name, optional, refusedField, text, typed } from './fields.js'
import type { FromSchema } from '../../../kernel/index.js'

const blocks = { type: ['string', 'array'], maxLength: BODY_BYTES, items: typed } as const

const tool = {
  type: 'object', required: ['name'],
  properties: {
    type: { type: ['string', 'null'], description: 'custom tools only' },
    name, description: text, input_schema: { type: 'object' },
    strict: ignored('arguments always match the schema'),
    cache_control: ignored('the cache matches prompts by their prefix'),
    eager_input_streaming: ignored('arguments are always streamed'),
    input_examples: refusedField('are not served: put them into the description', []),
    defer_loading: refusedField('is not served: send only the tools that the model needs', false),
    allowed_callers: refusedField('may be ["direct"] only', ['direct'])
  }
} as const

const format = {
  type: ['object', 'null'], required: ['type', 'schema'],
  properties: { type: { const: 'json_schema' }, schema: { type: 'object' } }
} as const

/** Fields that message and token count requests share: the conversation, and everything that adds tokens. */
const shared = {
  model: name,
  messages: {
    type: 'array', minItems: 1,
    items: {
      type: 'object', required: ['role', 'content'],
      properties: {
        role: {
          enum: ['user', 'assistant', 'system'],
          description: 'system: instructions from this message on, if the model\'s template supports them'
        },
        content: blocks
      }
    },
    description: 'the last message is from the user: prefilled answers are not supported'
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
      budget_tokens: ignored('it is an upper bound; max_tokens also limits thinking'),
      display: refusedField('may be "summarized" only: thinking is returned in full', 'summarized')
    }
  },
  output_config: {
    type: ['object', 'null'],
    properties: {
      format, effort: optional('string'),
      task_budget: refusedField('is not served; max_tokens limits an answer')
    }
  },
  output_format: { ...format, description: 'the older name of output_config.format' },
  cache_control: ignored('the cache matches prompts by their prefix'),
  context_management: refusedField('is not served: send the messages that the model has to read',
    { edits: [] }, { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }),
  mcp_servers: refusedField('are not served: send their tools in tools', []),
  speed: ignored('there is only one speed')
} as const

/** Body of POST /v1/messages. */
export const messagesBody = {
  type: 'object', required: ['model', 'max_tokens', 'messages'],
  properties: {
    ...shared, max_tokens: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
    stop_sequences: { type: 'array', items: name }, ...strictFields('anthropic'), stream: { type: 'boolean' },
    thread: {
      type: ['object', 'null'], required: ['type'],
      properties: { type: { enum: ['create', 'continue'] }, previous_message_id: name },
      description: 'stored in the memory of this node'
    },
    metadata: ignored('identifies the end user for abuse checks, which svc does not do'),
    service_tier: ignored('there is only one tier'), inference_geo: ignored('inference runs in this cluster'),
    diagnostics: ignored('it only diagnoses cache misses'), billing_policy: ignored('svc does not bill'),
    fallback_credit_token: ignored('svc does not bill'),
    fallbacks: refusedField('are not served: send another request for another model', []),
    compaction: refusedField('is not served: send the messages that the model has to read'),
    container: refusedField('is not served: svc runs no code')
  }
} as const

/** Body of POST /v1/messages/count_tokens. */
export const countBody = { type: 'object', required: ['model', 'messages'], properties: shared } as const

export type MessagesBody = FromSchema<typeof messagesBody>

/** A stored conversation; its key is the id of its last answer. */
export type Thread = Pick<MessagesBody, 'messages' | 'system' | 'tools'>
