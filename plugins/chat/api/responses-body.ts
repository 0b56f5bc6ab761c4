/**
 * Bodies of OpenAI's Responses API. Unknown fields are ignored and named in a header; null is as good as
 * absent.
 */
import { nullableFields } from '../../runners/language/sampling.js'
import { BODY_BYTES, ignored, name, optional, optionalText, refusedField, nullableInteger } from './fields.js'
import { openAiExtras } from './schema.js'
import type { FromSchema } from '../../../kernel/index.js'

/** Of tools that are refused. */
const OF_OTHER_TOOLS = [
  'file_search_call.results', 'web_search_call.results', 'web_search_call.action.sources',
  'message.input_image.image_url', 'computer_call_output.output.image_url', 'code_interpreter_call.outputs'
] as const

/** What an answer is made of, and its count of tokens. */
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
  tool_choice: {
    type: ['string', 'object', 'null'], required: ['type'],
    properties: { type: name, name }
  },
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
      verbosity: refusedField('is not served: say in the input how long the answer is to be', 'medium')
    }
  },
  reasoning: {
    type: ['object', 'null'],
    properties: {
      effort: optional('string'),
      summary: ignored('the reasoning itself is in the answer'),
      generate_summary: ignored('the reasoning itself is in the answer')
    }
  },
  previous_response_id: { ...optional('string'), description: 'an answer that this node has kept' },
  conversation: refusedField('is not served: go on from an answer with previous_response_id'),
  truncation: ignored('a conversation that does not fit is a 400 either way: none is shortened'),
  personality: refusedField('is not served: say it in the instructions')
} as const

const { user, ...extras } = openAiExtras

/** Body of POST /v1/responses. */
export const responsesBody = {
  type: 'object', required: ['model', 'input'],
  properties: {
    ...shared,
    max_output_tokens: nullableInteger(1),
    ...nullableFields('responses'),
    stream: optional('boolean'),
    stream_options: {
      type: ['object', 'null'],
      properties: {
        include_obfuscation: ignored('it pads events against listeners of an encrypted line')
      }
    },
    metadata: { ...optional('object'), description: 'is in the answer again' },
    store: {
      ...optional('boolean'), description: 'kept in the memory of the node that is asked, unless false'
    },
    include: {
      type: ['array', 'null'], items: { enum: ['reasoning.encrypted_content', ...OF_OTHER_TOOLS] },
      description: 'reasoning is in the answer as it is, and nothing is encrypted; the others are of tools ' +
        'that are not served'
    },
    top_logprobs: refusedField('is not served here; POST /v1/chat/completions has it', 0),
    background: refusedField('is not served: keep the connection open', false),
    max_tool_calls: ignored('it bounds the calls of tools that are not served'),
    context_management: refusedField('is not served: send what the model is to read', []),
    prompt: refusedField('is not served: no prompts are kept; send it as input'),
    ...extras,
    user
  }
} as const

/** Body of POST /v1/responses/input_tokens. */
export const inputTokensBody = {
  type: 'object', required: ['model', 'input'], properties: shared
} as const

/** A valid body of POST /v1/responses. */
export type ResponsesBody = FromSchema<typeof responsesBody>
/** An item of a conversation, as clients send it or as an answer has it. */
export type InputItem = Record<string, unknown>

/** An answer. */
export interface Response extends Record<string, unknown> { id: string, output: object[] }

/** An answer, what it was asked, and the answer that it went on from. */
export interface KeptResponse { response: Response, input: InputItem[], previous: string | null }
