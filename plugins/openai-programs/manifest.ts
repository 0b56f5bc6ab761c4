import { DriverService } from '../runners/service.js'
import { AuditService, closedObject, type Manifest } from '../../kernel/index.js'
import { BUNDLED, ENGINE } from './descriptions.js'
import { description, text } from './schema.js'

const installs = Object.entries(BUNDLED).map(([name, { install }]) => `${name}: \`${install!}\``).join('; ')

export const manifest = {
  name: 'openai-programs', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Runs models in safetensors with vLLM, MLX, SGLang, or any program that speaks OpenAI\'s API.',
  requires: ['runners'], consumes: { drivers: DriverService }, consumesOptional: { audit: AuditService },
  checks: {
    collectives: { summary: 'Unencrypted traffic between nodes that svc.yaml allows.',
      load: async () => ({ default: (await import('./cli.js')).doctor }) }
  },
  config: closedObject({
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
      'propertyNames': { pattern: '^[a-z][a-z0-9-]{0,63}$' },
      'additionalProperties': description,
      'allOf': [{ type: 'object', maxProperties: 64, patternProperties: {
        [`^(?!(${Object.keys(BUNDLED).join('|')})$)`]: { type: 'object', required: ['command'] }
      } }],
      'description': 'Programs by name: changes of vllm, mlx and sglang, or others with their `command`.'
    }
  }, []),
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
