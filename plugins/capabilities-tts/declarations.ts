import {
  bounded, closedObject, openObject, type CapabilityDecl, type ErrorDecl, type RouteDecl
} from '../../kernel/index.js'
import { LOUDNESS, LOUDNESS_RANGE } from './engine/loudness.js'

const name = { type: 'string', minLength: 1 } as const
const positive = { type: 'number', exclusiveMinimum: 0 } as const

export const MEDIA_TYPES: Readonly<Record<string, string>> = {
  mp3: 'audio/mpeg', opus: 'audio/ogg; codecs=opus', aac: 'audio/aac', flac: 'audio/flac', wav: 'audio/wav',
  pcm: 'audio/pcm'
}

/** Longest accepted text, in characters (about two hours of speech). */
const TEXT_LENGTH = 100_000

export const inputSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  ...closedObject({
    model: name, text: name, voice: name, response_format: { const: 'mp3' }, streaming_interval: positive,
    speed: positive, instruct: { type: 'string' }, lang_code: { type: 'string' },
    temperature: { type: 'number' }, top_p: { type: 'number' }, top_k: { type: 'integer', minimum: 0 },
    repetition_penalty: positive, max_tokens: { type: 'integer', minimum: 1 },
    seed: { type: 'integer', minimum: 0, maximum: 4294967295 }
  }, ['model', 'text'])
} as const

/** Schema of the fields that a streamed chunk has in addition to its audio bytes. */
export const outputChunkSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  ...closedObject({
    model: { type: 'string' }, format: { const: 'mp3' }, chunk_index: { type: 'integer', minimum: 0 },
    sample_rate: { type: 'integer', minimum: 1 }, is_partial: { type: 'boolean' }
  }, ['model', 'format', 'chunk_index', 'is_partial'])
} as const

export const tts = {
  id: 'tts', version: '1.0.0', title: 'Text to speech',
  description: 'Speaks a text with a placed text-to-speech model and streams MP3 while it is being spoken.',
  input_schema: inputSchema,
  input_bounds: bounded({
    type: 'object', properties: { ...inputSchema.properties, text: { ...name, maxLength: TEXT_LENGTH } }
  }),
  output_schema: null, io_mode: 'server_streaming', input_chunk_schema: null,
  output_chunk_schema: outputChunkSchema,
  annotations: {
    modality: 'audio', latency: 'interactive', runtime: 'onnxruntime', stability: 'experimental'
  },
  media_type: 'audio/mpeg'
} as const satisfies CapabilityDecl

const MiB = 1024 * 1024

const loudness = {
  type: ['number', 'null'], minimum: LOUDNESS_RANGE.min, maximum: LOUDNESS_RANGE.max
} as const

const BY_CARD = 'only for models whose card supports it: `support` in GET /models/{id}/card'

export const speechBody = openObject({
  model: { type: 'string', minLength: 1 },
  input: {
    type: 'string', minLength: 1, maxLength: TEXT_LENGTH,
    description: 'up to 100,000 characters, about two hours of speech; OpenAI accepts 4,096'
  },
  voice: {
    type: ['string', 'object'], minLength: 1, required: ['id'],
    properties: { id: { type: 'string', minLength: 1 } }
  },
  instructions: {
    type: 'string', description: 'only for models whose card supports them; Piper and Kokoro do not'
  },
  response_format: { enum: ['mp3', 'wav', 'pcm', 'flac', 'opus', 'aac'] },
  speed: { type: 'number', exclusiveMinimum: 0 }, stream_format: { enum: ['audio', 'sse'] },
  streaming_interval: { type: 'number', exclusiveMinimum: 0 }, lang_code: { type: 'string' },
  loudness: {
    ...loudness,
    description: 'RMS in dBFS; null for the voice\'s own; default: the card\'s, else the setting\'s'
  },
  temperature: { type: 'number', description: BY_CARD }, top_p: { type: 'number', description: BY_CARD },
  top_k: { type: 'integer', minimum: 0, description: BY_CARD },
  repetition_penalty: { type: 'number', exclusiveMinimum: 0, description: BY_CARD },
  max_tokens: { type: 'integer', minimum: 1, description: BY_CARD },
  seed: { type: 'integer', minimum: 0, maximum: 4294967295, description: BY_CARD }
}, ['model', 'input'])

const text = { type: 'string' } as const
const listedVoice = openObject({ id: text, name: text, model: text })

export const routes = {
  speech: {
    method: 'POST', url: '/v1/audio/speech', authority: 'invoke', stream: true, bodyLimit: MiB, api: 'OpenAI',
    summary: 'Speaks a text (OpenAI\'s route): mp3, opus, aac, flac, wav or pcm, raw or as events.',
    body: speechBody, produces: 'audio/mpeg', streams: [...Object.values(MEDIA_TYPES), 'text/event-stream'],
    errors: [
      'no_instance', 'wrong_task', 'invalid_payload', 'text_unspeakable', 'phonemizer_missing',
      'language_unsupported', 'format_unsupported',
      'overloaded', 'instance_lost', 'session_changed', 'provider_error', 'timeout'
    ]
  },
  voices: {
    method: 'GET', url: '/v1/audio/voices', authority: 'read',
    summary: 'The voices of one speech model, or of all.',
    query: closedObject({ model: { type: 'string', minLength: 1 } }, []),
    reply: openObject({
      object: { const: 'list' }, data: { type: 'array', items: listedVoice },
      voices: { type: 'array', items: listedVoice, description: 'the same, for Open WebUI' }
    }),
    errors: ['no_instance']
  },
  models: {
    method: 'GET', url: '/v1/audio/models', authority: 'read',
    summary: 'The speech models, in the format of Open WebUI.',
    reply: openObject({ models: { type: 'array', items: openObject({ id: text }) } })
  }
} as const satisfies Record<string, RouteDecl>

export const config = closedObject({
  model_aliases: {
    type: 'object', default: {}, additionalProperties: { type: 'string', minLength: 1 },
    description: 'Aliases of models on /v1/audio routes, e.g. {tts-1: svc/voice-en}.'
  },
  voice_aliases: {
    type: 'object', default: {}, additionalProperties: { type: 'string', minLength: 1 },
    description: 'Aliases of voices on /v1/audio routes, e.g. {alloy: slt}.'
  },
  openai_names: {
    type: 'boolean', default: true,
    description: 'Whether OpenAI\'s names (tts-1, alloy) select the placed voice on /v1/audio routes.'
  },
  loudness: {
    ...loudness, default: LOUDNESS,
    description: 'Loudness of speech as RMS in dBFS, the same for all voices; null for each voice\'s own.'
  }
}, [])

export const errors = {
  text_unspeakable: {
    status: 400, retryable: false, message: 'The text has no words that this voice can speak.',
    remedy: 'Send words in a script that the voice supports; `svc capabilities tts@1.0.0` shows the models.'
  },
  phonemizer_missing: {
    status: 400, retryable: false, message: 'This language needs a phonemiser that is not installed.',
    remedy: 'Run `npm install piper-phonemize` in the svc folder and restart the node.'
  },
  language_unsupported: {
    status: 400, retryable: false, message: 'The language of this voice is not supported.',
    remedy: 'Place a voice of another language; `svc search piper` lists some.'
  },
  model_invalid: {
    status: 502, retryable: false, message: 'The files of the model do not match.',
    remedy: 'Check the model card and its files; `svc status` shows why the runner failed.'
  },
  model_incomplete: {
    status: 502, retryable: false, message: 'A file of the model is missing.',
    remedy: 'Compare the model card with the files in the model\'s folder.'
  },
  format_unsupported: {
    status: 400, retryable: false, message: 'The audio format does not support this voice\'s sampling rate.',
    remedy: 'Request opus, flac, wav or pcm.'
  }
} as const satisfies Record<string, ErrorDecl>
