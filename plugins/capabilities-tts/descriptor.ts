import type { CapabilityDecl } from '../../kernel/index.js'

const name = { type: 'string', minLength: 1 } as const
const positive = { type: 'number', exclusiveMinimum: 0 } as const

/** Request fields of `tts` 1.0.0. */
export const inputSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  additionalProperties: false,
  required: ['model', 'text'],
  properties: {
    model: name,
    text: name,
    voice: name,
    response_format: { const: 'mp3' },
    streaming_interval: positive,
    speed: positive,
    instruct: { type: 'string' },
    lang_code: { type: 'string' },
    temperature: { type: 'number' },
    top_p: { type: 'number' },
    top_k: { type: 'integer', minimum: 0 },
    repetition_penalty: positive,
    max_tokens: { type: 'integer', minimum: 1 },
    seed: { type: 'integer', minimum: 0, maximum: 4294967295 }
  }
} as const

/** What each streamed chunk says beside its bytes. */
export const outputChunkSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  additionalProperties: false,
  required: ['model', 'format', 'chunk_index', 'is_partial'],
  properties: {
    model: { type: 'string' },
    format: { const: 'mp3' },
    chunk_index: { type: 'integer', minimum: 0 },
    sample_rate: { type: 'integer', minimum: 1 },
    is_partial: { type: 'boolean' }
  }
} as const

/** The capability as it is listed. A change of any descriptor field changes its revision. */
export const tts = {
  id: 'tts',
  version: '1.0.0',
  title: 'Text to speech',
  description: 'Speaks a text with a placed text-to-speech model and streams MP3 while it is being spoken.',
  input_schema: inputSchema,
  output_schema: null,
  io_mode: 'server_streaming',
  input_chunk_schema: null,
  output_chunk_schema: outputChunkSchema,
  annotations: {
    modality: 'audio', latency: 'interactive', runtime: 'onnxruntime', stability: 'experimental'
  },
  media_type: 'audio/mpeg'
} as const satisfies CapabilityDecl
