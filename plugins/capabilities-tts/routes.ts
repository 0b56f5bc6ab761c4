import type { RouteDecl } from '../../kernel/index.js'

const MiB = 1024 * 1024

/** OpenAI's fields and those of the `tts` capability; unknown ones are ignored, as its clients expect. */
export const speechBody = {
  type: 'object',
  required: ['model', 'input'],
  properties: {
    model: { type: 'string', minLength: 1 },
    input: { type: 'string', minLength: 1 },
    voice: {
      type: ['string', 'object'], minLength: 1, required: ['id'],
      properties: { id: { type: 'string', minLength: 1 } }
    },
    instructions: { type: 'string' },
    response_format: { enum: ['mp3', 'wav', 'pcm', 'flac', 'opus', 'aac'] },
    speed: { type: 'number', exclusiveMinimum: 0 },
    stream_format: { enum: ['audio', 'sse'] },
    streaming_interval: { type: 'number', exclusiveMinimum: 0 },
    lang_code: { type: 'string' },
    temperature: { type: 'number' },
    top_p: { type: 'number' },
    top_k: { type: 'integer', minimum: 0 },
    repetition_penalty: { type: 'number', exclusiveMinimum: 0 },
    max_tokens: { type: 'integer', minimum: 1 },
    seed: { type: 'integer', minimum: 0, maximum: 4294967295 }
  }
} as const

const listedVoice = {
  type: 'object', required: ['id', 'name', 'model'],
  properties: { id: { type: 'string' }, name: { type: 'string' }, model: { type: 'string' } }
} as const

export const routes = {
  speech: {
    method: 'POST', url: '/v1/audio/speech', authority: 'invoke', stream: true, bodyLimit: MiB,
    summary: 'Speaks a text (OpenAI\'s route): mp3, wav or pcm, as raw audio or server-sent events.',
    body: speechBody,
    produces: 'audio/mpeg',
    errors: [
      'no_instance', 'invalid_payload', 'text_unspeakable', 'phonemizer_missing',
      'format_unsupported', 'overloaded', 'instance_lost', 'timeout'
    ]
  },
  voices: {
    method: 'GET', url: '/v1/audio/voices', authority: 'read',
    summary: 'The voices of a model, or of all.',
    query: {
      type: 'object', additionalProperties: false,
      properties: { model: { type: 'string', minLength: 1 } }
    },
    reply: {
      type: 'object', required: ['object', 'data'],
      properties: { object: { const: 'list' }, data: { type: 'array', items: listedVoice } }
    },
    errors: ['no_instance']
  }
} as const satisfies Record<string, RouteDecl>
