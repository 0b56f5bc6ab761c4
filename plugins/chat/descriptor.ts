import { embeddingFields } from './api/embeddings.js'
import { chatFields } from './api/schema.js'
import { bounded, type CapabilityDecl } from '../../kernel/index.js'

const { n: _n, ...fields } = chatFields
const object = { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object' } as const

/** Fields shared by the capabilities `chat` and `embeddings`. Changing any of them changes both revisions. */
const common = {
  version: '1.0.0', input_chunk_schema: null,
  annotations: {
    modality: 'text', latency: 'interactive', runtime: 'onnxruntime', stability: 'experimental'
  },
  /** Calls queue at the runner that serves them; this limit only bounds the memory that queued calls use. */
  calls_at_once: 256
} as const

/**
 * `chat` 1.0.0 accepts the model-related fields of POST /v1/chat/completions, except `n`. Each streamed chunk
 * is a `chat.completion.chunk`.
 */
export const chatCapability = {
  ...common, id: 'chat', title: 'Chat',
  description: 'Answers a conversation with a placed language model and streams it while it is written.',
  input_schema: bounded({
    ...object, additionalProperties: false, required: ['model', 'messages'], properties: fields
  } as const),
  output_schema: null,
  io_mode: 'server_streaming',
  output_chunk_schema: {
    ...object, required: ['id', 'object', 'created', 'model', 'choices'],
    properties: {
      id: { type: 'string' }, object: { const: 'chat.completion.chunk' }, created: { type: 'integer' },
      model: { type: 'string' }, choices: { type: 'array', items: { type: 'object' } },
      usage: { type: ['object', 'null'] }
    }
  }
} as const satisfies CapabilityDecl

const vector = {
  type: 'object', required: ['object', 'index', 'embedding'],
  properties: {
    object: { const: 'embedding' }, index: { type: 'integer' },
    embedding: { type: ['array', 'string'], items: { type: 'number' }, description: 'base64 where asked for' }
  }
} as const

/** The capability behind POST /v1/embeddings, with the same response. */
export const embeddingsCapability = {
  ...common, id: 'embeddings', title: 'Embeddings',
  description: 'Makes one vector of each text with a placed encoder model.',
  input_schema: bounded({
    ...object, additionalProperties: false, required: ['model', 'input'], properties: embeddingFields
  } as const),
  output_schema: {
    ...object, required: ['object', 'data', 'model', 'usage'],
    properties: {
      object: { const: 'list' }, data: { type: 'array', items: vector }, model: { type: 'string' },
      usage: {
        type: 'object', required: ['prompt_tokens', 'total_tokens'],
        properties: { prompt_tokens: { type: 'integer' }, total_tokens: { type: 'integer' } }
      }
    }
  },
  io_mode: 'unary',
  output_chunk_schema: null
} as const satisfies CapabilityDecl
