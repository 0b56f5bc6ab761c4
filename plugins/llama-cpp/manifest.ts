import { RunnersService } from '../runners/service.js'
import { verbs } from './cli/verbs.js'
import { GGUF_ENGINE, LLAMA_SERVER } from './engine.js'
import type { Manifest } from '../../kernel/index.js'

export const manifest = {
  name: 'llama-cpp',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Runs GGUF models with llama.cpp.',
  requires: ['runners'],
  consumes: { runners: RunnersService },
  settings: {
    engines: {
      type: 'object', additionalProperties: false, default: {},
      description: 'Builds of external engines, which `svc engine add` installs.',
      properties: {
        url: {
          'type': 'string', 'format': 'http-url', 'pattern': '^https://[^@?#\\s]+$',
          'x-local': true, 'default': 'https://api.github.com/repos/ggml-org/llama.cpp',
          'x-expected': 'an https address without a password or a query',
          'description': 'Address of the releases of llama.cpp: a repository in GitHub\'s API, or a mirror ' +
            'with the same /releases/tags/TAG.'
        }
      }
    }
  },
  engines: {
    [GGUF_ENGINE]: {
      summary: 'GGUF models on llama.cpp: llama-server if it is installed, else the llama.cpp in svc.',
      module: new URL('./server/index.js', import.meta.url).href,
      cards: new URL('./cards/index.js', import.meta.url).href,
      help: () => import('./cli/help.js'),
      backends: ['cuda', 'rocm', 'vulkan', 'metal', 'cpu'],
      external: true,
      program: LLAMA_SERVER,
      slots: { cpu: 16, gpu: 64 },
      overhead: 1.1,
      fixedBytes: 64 * 2 ** 20,
      gpuBytes: 500 * 2 ** 20,
      keepsPrompts: true,
      multiNode: true,
      meta: 'LlamaRpc',
      tensor: true,
      unevenTensor: true,
      manyDevices: true,
      donor: 'llama-rpc-server'
    }
  },
  verbs
} as const satisfies Manifest
