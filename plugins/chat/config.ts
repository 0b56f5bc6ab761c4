import type { FromSchema } from '../../kernel/index.js'

const count = (usual: number, description: string) =>
  ({ type: 'integer', minimum: 1, default: usual, description }) as const

/** As `count`, for what the engines take no more of. */
const atMost = (most: number, description: string) =>
  ({ ...count(most, description), maximum: most }) as const

/** `plugins.chat` in svc.yaml. */
export const config = {
  type: 'object',
  additionalProperties: false,
  properties: {
    model_aliases: {
      type: 'object', default: {}, additionalProperties: { type: 'string', minLength: 1 },
      description: 'Names clients may use for a model on the chat routes, e.g. {gpt-4o-mini: acme/model}.'
    },
    ollama_port: {
      type: ['integer', 'null'], minimum: 1, maximum: 65_535, default: null,
      description: 'A port of its own for Ollama\'s API at its root, beside /ollama: at 11434 its clients ' +
        'look. Null for none.'
    },
    max_messages: count(2048, 'Messages one request may have.'),
    max_stops: count(16, 'Stop texts one request may have.'),
    max_answers: count(8, 'Answers one request may ask for (n).'),
    max_tools: count(128, 'Tools one request may have.'),
    max_inputs: count(2048, 'Texts one request for embeddings may have.'),
    kept_mib: {
      ...count(64, 'Memory for conversations and answers that clients have this node keep, MiB.'),
      maximum: 4096
    },
    schema_kib: atMost(64, 'Size of one JSON Schema, of a response_format or a tool, in KiB.'),
    schema_depth: atMost(32, 'Levels one such schema may be nested, in objects and lists.')
  }
} as const

/** The settings with their defaults. */
export type ChatConfig = FromSchema<typeof config, true>
