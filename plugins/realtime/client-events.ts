/** Schemas of the events that clients send, by type. */
import { answerFields, outputFields, sessionSchema } from './session-config.js'
import type { FromSchema } from '../../kernel/index.js'

const id = { type: 'string', minLength: 1, maxLength: 64 } as const
/** The socket accepts messages up to 1 MiB. */
const text = { type: 'string', maxLength: 1024 * 1024 } as const
const part = {
  type: 'object', required: ['type'],
  properties: {
    type: { enum: ['input_text', 'input_audio', 'input_image', 'output_text', 'output_audio'] },
    text, audio: text, transcript: { ...text, type: ['string', 'null'] }
  }
} as const
const item = {
  type: 'object', required: ['type'],
  properties: {
    id, type: { enum: ['message', 'function_call', 'function_call_output', 'item_reference'] },
    role: { enum: ['system', 'user', 'assistant'] }, content: { type: 'array', maxItems: 64, items: part },
    name: id, call_id: id, arguments: text, output: text
  }
} as const
const response = {
  type: 'object',
  properties: {
    ...answerFields, audio: { type: 'object', properties: { output: outputFields } },
    conversation: { enum: ['auto', 'none'] }, input: { type: 'array', maxItems: 1000, items: item },
    metadata: {
      type: ['object', 'null'], maxProperties: 16, additionalProperties: { type: 'string', maxLength: 512 }
    }
  }
} as const

const event = <const P extends object, const R extends readonly string[]>(properties: P, required: R) =>
  ({ type: 'object', required, properties }) as const

export const clientEvents = {
  'session.update': event({ session: sessionSchema }, ['session']),
  'input_audio_buffer.append': event({ audio: text }, ['audio']), 'input_audio_buffer.commit': event({}, []),
  'input_audio_buffer.clear': event({}, []), 'output_audio_buffer.clear': event({}, []),
  'conversation.item.create': event({ item, previous_item_id: { type: ['string', 'null'] } }, ['item']),
  'conversation.item.retrieve': event({ item_id: id }, ['item_id']),
  'conversation.item.delete': event({ item_id: id }, ['item_id']),
  'conversation.item.truncate': event({
    item_id: id, content_index: { const: 0 }, audio_end_ms: { type: 'integer', minimum: 0 }
  }, ['item_id', 'content_index', 'audio_end_ms']),
  'response.create': event({ response }, []),
  'response.cancel': event({ response_id: id }, [])
} as const

export type EventType = keyof typeof clientEvents
export type ClientEvent<T extends EventType> = FromSchema<typeof clientEvents[T]>
export type ItemInput = FromSchema<typeof item>
export type ResponseInput = FromSchema<typeof response>
