import { RunnersService } from '../runners/service.js'
import { GGUF_ENGINE, LLAMA_SERVER } from './engine.js'
import type { Manifest, VerbDecl } from '../../kernel/index.js'

const verbs = {
  'engine ls': {
    heading: 'Keep models', local: true,
    summary: 'list the builds of llama.cpp in this home, and programs of other engines',
    examples: ['svc engine ls'],
    load: async () => ({ default: (await import('./cli/engine.js')).ls })
  },
  'engine add': {
    heading: 'Keep models', local: true,
    summary: 'install a build of llama.cpp for GGUF models, or select an installed one', args: '<engine>',
    options: [
      ['--build <tag>', 'release of llama.cpp (the one that svc is tested with)'],
      ['--backend <name>', 'cpu, metal, vulkan or cuda (the best for this machine)'],
      ['--from <file...>',
        'a llama-server, its folder, or archives of a release; for cuda also the archive of its libraries'],
      ['--sha256 <hex...>', 'SHA-256 of each archive, for a release that svc does not know']
    ],
    examples: [
      'svc engine add llama.cpp', 'svc engine add llama.cpp --build b11146 --backend vulkan',
      'svc engine add llama.cpp --from ./llama.cpp/build/bin'
    ],
    load: async () => ({ default: (await import('./cli/engine.js')).add })
  },
  'engine rm': {
    heading: 'Keep models', local: true, summary: 'remove a build of llama.cpp that no runner uses',
    args: '<engine> <build>', examples: ['svc engine rm llama.cpp b11146-cpu'],
    load: async () => ({ default: (await import('./cli/engine.js')).rm })
  }
} satisfies Record<string, VerbDecl>

export const manifest = {
  name: 'llama-cpp', version: '1.0.0', kernel: '^1.0.0', summary: 'Runs GGUF models with llama.cpp.',
  requires: ['runners'], consumes: { runners: RunnersService },
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
      cards: new URL('./cards/index.js', import.meta.url).href, help: () => import('./cli/help.js'),
      backends: ['cuda', 'rocm', 'vulkan', 'metal', 'cpu'], external: true, program: LLAMA_SERVER,
      slots: { cpu: 16, gpu: 64 }, overhead: 1.1, fixedBytes: 64 * 2 ** 20, gpuBytes: 500 * 2 ** 20,
      keepsPrompts: true, multiNode: true, meta: 'LlamaRpc', tensor: true, unevenTensor: true,
      manyDevices: true, donor: 'llama-rpc-server'
    }
  },
  verbs
} as const satisfies Manifest
