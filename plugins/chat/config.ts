import type { FromSchema } from '../../kernel/index.js'

const count = (usual: number, description: string) =>
  ({ type: 'integer', minimum: 1, default: usual, description }) as const

/** A setting with an upper limit, which is also the default. */
const atMost = (most: number, description: string) =>
  ({ ...count(most, description), maximum: most }) as const

export const config = {
  type: 'object', additionalProperties: false,
  properties: {
    model_aliases: {
      type: 'object', default: {}, additionalProperties: { type: 'string', minLength: 1 },
      description: 'Other names for models on the chat routes, e.g. {gpt-4o-mini: acme/model}.'
    },
    max_messages: count(2048, 'Most messages in one request.'),
    max_stops: count(16, 'Most stop texts in one request.'),
    max_answers: count(8, 'Most answers to one request (n).'),
    max_tools: count(128, 'Most tools in one request.'),
    max_inputs: count(2048, 'Most texts in one embeddings request.'),
    kept_mib: {
      ...count(64, 'Memory for conversations that this node stores for clients, MiB.'), maximum: 4096
    },
    schema_kib: atMost(64, 'Largest JSON Schema of a response_format or a tool, KiB.'),
    schema_depth: atMost(32, 'Deepest nesting of such a schema, in objects and lists.')
  }
} as const

export type ChatConfig = FromSchema<typeof config, true>
