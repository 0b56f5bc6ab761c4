import { embeddingFields } from './api/embeddings.js'
import { chatFields } from './api/schema.js'
import type { CapabilityDecl } from '../../kernel/index.js'

const { n: _n, ...fields } = chatFields

/**
 * A node passes so many on at once, to instances here and elsewhere: they write in batches, and each has a
 * bound of its own. Beyond that calls wait, and beyond `limits.calls_queued` they are refused.
 */
const CALLS_AT_ONCE = 64

/** Request fields of `chat` 1.0.0: those of the chat route that reach the model, for one answer. */
export const inputSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  additionalProperties: false,
  required: ['model', 'messages'],
  properties: fields
} as const

/** Each streamed chunk is a `chat.completion.chunk`. */
export const outputChunkSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['id', 'object', 'created', 'model', 'choices'],
  properties: {
    id: { type: 'string' },
    object: { const: 'chat.completion.chunk' },
    created: { type: 'integer' },
    model: { type: 'string' },
    choices: { type: 'array', items: { type: 'object' } },
    usage: { type: ['object', 'null'] }
  }
} as const

/** The capability as it is listed. A change of any descriptor field changes its revision. */
export const chatCapability = {
  id: 'chat',
  version: '1.0.0',
  title: 'Chat',
  description: 'Answers a conversation with a placed language model and streams it while it is written.',
  input_schema: inputSchema,
  output_schema: null,
  io_mode: 'server_streaming',
  input_chunk_schema: null,
  output_chunk_schema: outputChunkSchema,
  annotations: {
    modality: 'text', latency: 'interactive', runtime: 'onnxruntime', stability: 'experimental'
  },
  calls_at_once: CALLS_AT_ONCE
} as const satisfies CapabilityDecl

/** The capability behind POST /v1/embeddings, whose answer it gives. */
export const embeddingsCapability = {
  id: 'embeddings',
  version: '1.0.0',
  title: 'Embeddings',
  description: 'Makes one vector of each text with a placed encoder model.',
  input_schema: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    additionalProperties: false,
    required: ['model', 'input'],
    properties: embeddingFields
  },
  output_schema: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    required: ['object', 'data', 'model', 'usage'],
    properties: {
      object: { const: 'list' },
      data: { type: 'array', items: { type: 'object', required: ['object', 'index', 'embedding'] } },
      model: { type: 'string' },
      usage: { type: 'object', required: ['prompt_tokens', 'total_tokens'] }
    }
  },
  io_mode: 'unary',
  input_chunk_schema: null,
  output_chunk_schema: null,
  annotations: {
    modality: 'text', latency: 'interactive', runtime: 'onnxruntime', stability: 'experimental'
  },
  calls_at_once: CALLS_AT_ONCE
} as const satisfies CapabilityDecl
