/** Schemas of the events that clients send, by type. */
import { answerFields, outputFields, sessionSchema } from './session-config.js'
import { openObject, type FromSchema } from '../../kernel/index.js'

const id = { type: 'string', minLength: 1, maxLength: 64 } as const
/** The socket accepts messages up to 1 MiB. */
const text = { type: 'string', maxLength: 1024 * 1024 } as const
const part = openObject({
  type: { enum: ['input_text', 'input_audio', 'input_image', 'output_text', 'output_audio'] },
  text, audio: text, transcript: { ...text, type: ['string', 'null'] }
}, ['type'])
const item = openObject({
  id, type: { enum: ['message', 'function_call', 'function_call_output', 'item_reference'] },
  role: { enum: ['system', 'user', 'assistant'] }, content: { type: 'array', maxItems: 64, items: part },
  name: id, call_id: id, arguments: text, output: text
}, ['type'])
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

export const clientEvents = {
  'session.update': openObject({ session: sessionSchema }),
  'input_audio_buffer.append': openObject({ audio: text }), 'input_audio_buffer.commit': openObject({}),
  'input_audio_buffer.clear': openObject({}), 'output_audio_buffer.clear': openObject({}),
  'conversation.item.create': openObject({ item, previous_item_id: { type: ['string', 'null'] } }, ['item']),
  'conversation.item.retrieve': openObject({ item_id: id }),
  'conversation.item.delete': openObject({ item_id: id }),
  'conversation.item.truncate': openObject({
    item_id: id, content_index: { const: 0 }, audio_end_ms: { type: 'integer', minimum: 0 }
  }),
  'response.create': openObject({ response }, []),
  'response.cancel': openObject({ response_id: id }, [])
} as const

export type EventType = keyof typeof clientEvents
export type ClientEvent<T extends EventType> = FromSchema<typeof clientEvents[T]>
export type ItemInput = FromSchema<typeof item>
export type ResponseInput = FromSchema<typeof response>
