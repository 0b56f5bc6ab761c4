import type { VerbDecl } from '../../../kernel/index.js'

export const verbs = {
  'engine ls': {
    heading: 'Keep models', local: true,
    summary: 'list the builds of llama.cpp in this home, and the program in use',
    examples: ['svc engine ls'],
    load: async () => ({ default: (await import('./engine.js')).ls })
  },
  'engine add': {
    heading: 'Keep models', local: true,
    summary: 'install a build of llama.cpp for GGUF models, or select an installed one',
    args: '<engine>',
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
