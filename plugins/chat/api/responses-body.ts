/** Bodies for OpenAI's Responses API. Unknown fields are ignored but named in a header; null means absent. */
import { nullableFields } from '../../runners/language/sampling.js'
import { BODY_BYTES, ignored, name, optional, optionalText, refusedField, nullableInteger } from './fields.js'
import { openAiExtras } from './schema.js'
import type { FromSchema } from '../../../kernel/index.js'

/** Values of `include` that request results of unsupported tools. */
const OF_OTHER_TOOLS = [
  'file_search_call.results', 'web_search_call.results', 'web_search_call.action.sources',
  'message.input_image.image_url', 'computer_call_output.output.image_url', 'code_interpreter_call.outputs'
] as const

/** Fields that both routes share: the conversation and everything else that adds tokens. */
const shared = {
  model: name,
  input: { type: ['string', 'array'], maxLength: BODY_BYTES, minItems: 1, items: { type: 'object' } },
  instructions: optionalText,
  tools: {
    type: ['array', 'null'],
    items: {
      type: 'object', required: ['type'],
      properties: {
        type: { type: 'string', description: 'function only' }, name, description: optionalText,
        parameters: optional('object'), strict: optional('boolean')
      }
    }
  },
  tool_choice: { type: ['string', 'object', 'null'], required: ['type'], properties: { type: name, name } },
  parallel_tool_calls: optional('boolean'),
  text: {
    type: ['object', 'null'],
    properties: {
      format: {
        type: 'object', required: ['type'],
        properties: {
          type: { enum: ['text', 'json_object', 'json_schema'] }, name: { type: 'string' },
          schema: { type: 'object' }, strict: optional('boolean'), description: optionalText
        }
      },
      verbosity: ignored('the length of an answer follows the input')
    }
  },
  reasoning: {
    type: ['object', 'null'],
    properties: {
      effort: optional('string'), summary: ignored('the answer contains the full reasoning'),
      generate_summary: ignored('the answer contains the full reasoning')
    }
  },
  previous_response_id: refusedField('is not served: svc stores no responses; send the whole conversation'),
  conversation: refusedField('is not served: send the whole conversation'),
  truncation: ignored('a conversation that does not fit is a 400: svc does not truncate'),
  personality: refusedField('is not served: describe it in the instructions')
} as const

const { user, ...extras } = openAiExtras

/** Body of POST /v1/responses. */
export const responsesBody = {
  type: 'object', required: ['model', 'input'],
  properties: {
    ...shared, max_output_tokens: nullableInteger(1), ...nullableFields('responses'),
    stream: optional('boolean'),
    stream_options: {
      type: ['object', 'null'],
      properties: {
        include_obfuscation: ignored('it pads events to hide their length on an encrypted connection')
      }
    },
    metadata: { ...optional('object'), description: 'returned with the answer' },
    store: ignored('svc stores no responses'),
    include: {
      type: ['array', 'null'], items: { enum: ['reasoning.encrypted_content', ...OF_OTHER_TOOLS] },
      description: 'the answer always contains the reasoning, unencrypted; the other values belong to ' +
        'tools that are not served'
    },
    top_logprobs: refusedField('is not served here; POST /v1/chat/completions has it', 0),
    background: refusedField('is not served: keep the connection open', false),
    max_tool_calls: ignored('it limits calls of tools that are not served'),
    context_management: refusedField('is not served: send the messages that the model has to read', []),
    prompt: refusedField('is not served: svc stores no prompts; send it as input'), ...extras, user
  }
} as const

/** Body of POST /v1/responses/input_tokens. */
export const inputTokensBody = { type: 'object', required: ['model', 'input'], properties: shared } as const

export type ResponsesBody = FromSchema<typeof responsesBody>
/** An item of a conversation, from a client or from an answer. */
export type InputItem = Record<string, unknown>
