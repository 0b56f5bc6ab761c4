import type { JsonSchema } from '../../../kernel/index.js'

const text = { type: 'string' } as const
const integer = { type: 'integer' } as const
const objects = { type: 'array', items: { type: 'object' } } as const

const message = { type: 'object', properties: { role: text, content: { type: ['string', 'null'] } } } as const

/** Schemas of response fields in all four APIs; a name has one meaning in all of them. */
const fields: Readonly<Record<string, JsonSchema>> = {
  id: text,
  object: text,
  type: text,
  role: text,
  model: text,
  status: text,
  version: text,
  created: integer,
  // Unix seconds for OpenAI, an ISO time for Ollama.
  created_at: { type: ['number', 'string'] },
  choices: {
    type: 'array',
    items: {
      type: 'object', required: ['index', 'finish_reason'],
      properties: { index: integer, finish_reason: { type: ['string', 'null'] }, message, text }
    }
  },
  usage: {
    type: 'object',
    properties: {
      prompt_tokens: integer, completion_tokens: integer, total_tokens: integer,
      input_tokens: integer, output_tokens: integer
    }
  },
  content: objects,
  output: objects,
  results: objects,
  data: objects,
  models: objects,
  message,
  stop_reason: { type: ['string', 'null'] },
  response: text,
  prompt: text,
  done: { type: 'boolean' },
  deleted: { type: 'boolean' },
  has_more: { type: 'boolean' },
  tokens: { type: 'array', items: integer },
  count: integer,
  input_tokens: integer,
  prompt_eval_count: integer,
  max_model_len: { type: ['integer', 'null'] },
  embedding: { type: 'array', items: { type: 'number' } },
  embeddings: { type: 'array', items: { type: 'array', items: { type: 'number' } } },
  details: { type: 'object' },
  model_info: { type: 'object' },
  capabilities: { type: 'array', items: text }
}

export const answerFields = (names: readonly string[]): Record<string, JsonSchema> =>
  Object.fromEntries(names.map((name) => [name, fields[name] ?? {}]))
