import { DriverService } from '../runners/service.js'
import { AuditService, type Manifest } from '../../kernel/index.js'
import { BUNDLED, ENGINE } from './descriptions.js'

const text = { type: 'string', minLength: 1, maxLength: 4096 } as const
const texts = { type: 'array', maxItems: 64, items: text } as const
const start = {
  args: { type: 'array', maxItems: 128, items: { type: ['string', 'array'], maxLength: 4096, items: text } },
  environment: { type: 'object', maxProperties: 64,
    additionalProperties: { type: 'string', maxLength: 4096 } }
} as const

/** A description in svc.yaml; of a bundled one, what it changes. */
const description = {
  type: 'object', additionalProperties: false,
  properties: {
    command: { ...text, description: 'program in its environment or in PATH, or its absolute path' },
    environment_path: {
      ...text, pattern: '^/', description: 'virtual environment with the program, in its folder bin'
    },
    ...start,
    on: {
      type: 'object', description: 'more args and environment on one backend, such as cpu',
      additionalProperties: { type: 'object', additionalProperties: false, properties: start }
    },
    backends: { ...texts, description: 'cuda, rocm, metal, cpu' },
    packages: { ...texts, description: 'Python distributions that tell its version' },
    install: { ...text, description: 'command that installs it' },
    weights: { ...text, description: 'regular expression for the quantization of models that it loads' },
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
        models: { ...text, description: 'regular expression for the families of models that it splits' },
        worker: { ...texts, description: 'arguments of all ranks but the first' },
        seconds: { type: 'integer', minimum: 1, description: 'limit on the start of all' }
      }
    }
  }
} as const

const installs = Object.entries(BUNDLED).map(([name, { install }]) => `${name}: \`${install!}\``).join('; ')

export const manifest = {
  name: 'openai-programs', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Runs models in safetensors with vLLM, MLX, SGLang, or any program that speaks OpenAI\'s API.',
  requires: ['runners'], consumes: { drivers: DriverService }, consumesOptional: { audit: AuditService },
  checks: {
    collectives: { summary: 'Unencrypted traffic between nodes that svc.yaml allows.',
      load: async () => ({ default: (await import('./cli.js')).doctor }) }
  },
  config: {
    type: 'object', additionalProperties: false,
    properties: {
      engine_order: {
        'type': 'array', 'x-local': true, 'maxItems': 64, 'uniqueItems': true,
        'items': { type: 'string', maxLength: 64 }, 'examples': [['mlx', 'vllm', 'sglang']],
        'description': 'Programs in the order in which they are tried; those left out come last.'
      },
      collectives: {
        'type': 'object', 'x-local': true, 'additionalProperties': false, 'required': ['interface'],
        'properties': { interface: { ...text, maxLength: 15 } }, 'examples': [{ interface: 'eth1' }],
        'description': 'Network interface for models that vLLM or SGLang spreads over nodes. Their traffic ' +
          'is not encrypted, and others on that network could run code on this node: name a private one.'
      },
      engines: {
        'type': 'object', 'x-local': true, 'maxProperties': 64, 'default': {},
        'propertyNames': { pattern: '^[a-z][a-z0-9-]{0,63}$' }, 'additionalProperties': description,
        'description': 'Programs by name: changes of vllm, mlx and sglang, or others with their `command`.'
      }
    }
  },
  engines: {
    [ENGINE]: {
      summary: 'Models in safetensors on vLLM, MLX or SGLang, or on a program that svc.yaml describes.',
      module: new URL('./engine/index.js', import.meta.url).href,
      cards: new URL('./cards.js', import.meta.url).href, help: () => import('./cli.js'),
      backends: ['cuda', 'rocm', 'metal', 'cpu'], external: true, loopback: true,
      multiNode: true, tensor: true, onlyTensor: true,
      program: {
        name: 'vLLM, MLX or SGLang', builds: ENGINE,
        install: `Install one there (${installs}), or name its virtual environment in ` +
          'plugins.openai-programs.engines.NAME.environment_path; `svc engine ls` shows what is found.'
      },
      slots: { cpu: 16, gpu: 256 }, fixedBytes: 3400 * 2 ** 20
    }
  }
} as const satisfies Manifest
