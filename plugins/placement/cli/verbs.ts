import type { VerbDecl } from '../../../kernel/index.js'

export const verbs = {
  place: {
    heading: 'Keep models',
    summary: 'place a model on nodes with enough memory, and wait until it is ready',
    args: '<model>',
    options: [
      ['--min-nodes <n>', 'spread it over at least this many nodes'],
      ['--sharding <s>', 'how it is split: pipeline (by layers) or tensor'],
      ['--meta <kind>', 'how its parts communicate: Ring, or LlamaRpc for GGUF on llama.cpp'],
      ['--ctx <tokens>', 'context length in tokens; default: 2048 to 32768, by free memory'],
      ['--slots <n>', 'concurrent requests, each with its own context; default: as many as fit in memory'],
      ['--chat-template <file>', 'a Jinja chat template, instead of that of a GGUF model'],
      ['--node <node>', 'place it on this node only'],
      ['--exclude <node...>', 'nodes to exclude, by id, install id or name'],
      ['--dry-run', 'show where it would go; place nothing'],
      ['--explain', 'show the memory calculation for each node, and what would make it fit'],
      ['--ttl <seconds>', 'unload it after this long without a request'],
      ['--force', 'do not check memory; recorded in the event log'],
      ['-y, --yes', 'install a missing engine on this node without asking'],
      ['--wait [seconds]', 'wait at most this long, then exit 4 (default: while it makes progress)'],
      ['--no-wait', 'return without waiting']
    ],
    examples: [
      'svc place svc/voice-en --node attic', 'svc place acme/chat --dry-run --explain',
      'svc place acme/chat --min-nodes 2 --exclude attic --wait=300'
    ],
    load: () => import('./place.js')
  },
  ps: {
    heading: 'Keep models',
    summary: 'list placed and waiting instances: model, nodes, state, memory',
    examples: ['svc ps', 'svc ps --json | jq -r \'.instances[] | select(.state == "ready") | .instanceId\''],
    load: () => import('./ps.js')
  },
  stop: {
    heading: 'Keep models',
    summary: 'stop an instance, or all instances of a model, after its open requests; the files stay',
    args: '<instance-or-model>',
    options: [
      ['--now', 'do not wait for open requests: they end with an error'],
      ['--wait [seconds]', 'wait until it is removed; exit 4 on timeout'],
      ['-y, --yes', 'do not ask before stopping several']
    ],
    examples: ['svc stop svc/voice-en', 'svc stop 7d0f8a52 --now', 'svc stop -y acme/chat --wait=60'],
    load: () => import('./stop.js')
  },
  drain: {
    heading: 'Run a cluster',
    summary: 'stop running models on a node: its instances move to other nodes, and it gets no new ones',
    args: '<node>',
    options: [['--wait [seconds]', 'wait until it runs nothing; exit 4 on timeout']],
    examples: ['svc drain attic', 'svc drain attic --wait=600 && ssh attic sudo reboot'],
    load: () => import('./drain.js')
  },
  undrain: {
    heading: 'Run a cluster',
    summary: 'let a drained node run models again',
    args: '<node>',
    examples: ['svc undrain attic'],
    load: async () => ({ default: (await import('./drain.js')).undrain })
  },
  why: {
    heading: 'Watch it',
    summary: 'explain why a model does not answer, or what happened to a request (command or task id)',
    args: '<model-or-id>',
    explainsCommands: true,
    examples: [
      'svc why acme/chat', 'svc why svc/voice-en --json', 'svc why 6f0d5f9e-8f1c-4a52-9a39-0f3d5a1c2b44'
    ],
    load: () => import('./why.js')
  }
} satisfies Record<string, VerbDecl>
