/** The JSON schema of descriptions of programs, and their type. */
import { closedObject, type FromSchema } from '../../kernel/index.js'

export const text = { type: 'string', minLength: 1, maxLength: 4096 } as const
const texts = { type: 'array', maxItems: 64, items: text } as const
/**
 * A group in `args` and a variable in `environment` are left out if one of their placeholders has no value.
 * Placeholders: model (folder), name (model id), socket, port, context (tokens), slots, threads, kv_gib,
 * kv_bytes, gpu_share (of the GPU's memory), tool_parser; in a gang also rank, ranks (their number), hosts
 * (file with the addresses of the ranks, as MLX reads it), head and head_port (address and free port of the
 * first rank), own (address of this rank) and interface.
 */
const start = {
  args: { type: 'array', maxItems: 128, items: { type: ['string', 'array'], maxLength: 4096, items: text } },
  environment: { type: 'object', maxProperties: 64,
    additionalProperties: { type: 'string', maxLength: 4096 } }
} as const

/** A description in svc.yaml; of a bundled one, what it changes. */
export const description = closedObject({
  command: {
    ...text, pattern: '\\S', description: 'program in its environment or in PATH, or its absolute path'
  },
  environment_path: {
    ...text, pattern: '^/', description: 'virtual environment with the program, in its folder bin'
  },
  ...start,
  on: {
    type: 'object', description: 'more args and environment on one backend, such as cpu',
    additionalProperties: closedObject(start, [])
  },
  backends: {
    type: 'array', minItems: 1, uniqueItems: true, items: { enum: ['cuda', 'rocm', 'metal', 'cpu'] }
  },
  packages: { ...texts, minItems: 1, description: 'Python distributions that tell its version' },
  install: { ...text, description: 'command that installs it' },
  weights: {
    ...text, format: 'regex', description: 'regular expression for the quantization of models that it loads'
  },
  ready: { ...text, pattern: '^/', description: 'path that answers 200 once it listens' },
  failed: { type: 'integer', minimum: 400, maximum: 599, description: 'status there if it has failed' },
  request_model: { ...text, description: 'model of its requests' },
  metrics: {
    type: 'object', additionalProperties: false, required: ['path', 'names'],
    properties: { path: { ...text, pattern: '^/' }, names: texts },
    description: 'metrics that move while it works'
  },
  rename: {
    type: 'object', maxProperties: 64, additionalProperties: { type: ['string', 'null'], maxLength: 128 },
    description: 'names of request fields, from svc\'s to its own; null leaves one out'
  },
  lacks: {
    type: 'array', uniqueItems: true,
    items: { enum: ['schema', 'required_tools', 'logprobs', 'stop', 'context', 'token_ids'] },
    description: 'what it ignores: svc does stop and context itself, and refuses the others'
  },
  tool_parsers: { type: 'object', maxProperties: 32,
    additionalProperties: { type: 'string', maxLength: 64 } },
  fragile: { type: 'boolean', description: 'check it after each client that left' },
  process_mib: { type: 'integer', minimum: 0, description: 'memory besides weights and KV cache' },
  gang: {
    type: 'object', additionalProperties: false, description: 'how several run one model on several nodes',
    properties: {
      linked: { type: 'boolean', description: 'ranks connect to the next one only, by {hosts}' },
      models: { ...texts, description: 'families of models that it splits, if not all' },
      worker: { ...texts, description: 'arguments of all ranks but the first' },
      seconds: { type: 'integer', minimum: 1, description: 'limit on the start of all' }
    }
  }
}, [])

type Given = FromSchema<typeof description>
/** With all that has a default. `broken`: by distribution, why a program that is installed does not start. */
export type Description = Given & { broken?: Readonly<Record<string, string>> } &
  Required<Pick<Given, 'command' | 'backends' | 'weights' | 'ready' | 'request_model' | 'process_mib'>>
/** A feature that a program ignores. */
export type Lack = NonNullable<Given['lacks']>[number]
