import type { VerbDecl } from '../../../kernel/index.js'

export const verbs = {
  'engine ls': {
    heading: 'Keep models', local: true,
    summary: 'list the builds of llama.cpp in this home, and which program is used',
    examples: ['svc engine ls'],
    load: async () => ({ default: (await import('./engine.js')).ls })
  },
  'engine add': {
    heading: 'Keep models', local: true,
    summary: 'bring a build of llama.cpp for this machine, or use one that is there; GGUF models run on it',
    args: '<engine>',
    options: [
      ['--build <tag>', 'release of llama.cpp (one that is known to work)'],
      ['--backend <name>', 'cpu, metal, vulkan or cuda (what fits this machine)'],
      ['--from <file...>',
        'a llama-server, its folder, or archives of a release; for cuda also that of its libraries'],
      ['--sha256 <hex...>', 'SHA-256 of each archive, for a release that svc does not know']
    ],
    examples: [
      'svc engine add llama.cpp', 'svc engine add llama.cpp --build b11146 --backend vulkan',
      'svc engine add llama.cpp --from ./llama.cpp/build/bin'
    ],
    load: async () => ({ default: (await import('./engine.js')).add })
  },
  'engine rm': {
    heading: 'Keep models', local: true,
    summary: 'remove a build of llama.cpp that no runner uses',
    args: '<engine> <build>',
    examples: ['svc engine rm llama.cpp b11146-cpu'],
    load: async () => ({ default: (await import('./engine.js')).rm })
  }
} satisfies Record<string, VerbDecl>
