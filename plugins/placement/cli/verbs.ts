import type { VerbDecl } from '../../../kernel/index.js'

export const verbs = {
  place: {
    heading: 'Keep models',
    summary: 'place a model on nodes that have the memory for it, and wait until it is ready',
    args: '<model>',
    options: [
      ['--min-nodes <n>', 'spread it over at least so many nodes'],
      ['--sharding <s>', 'how it is cut: pipeline (by layers) or tensor'],
      ['--meta <kind>', 'how its parts talk: Ring, or LlamaRpc for GGUF on llama.cpp'],
      ['--ctx <tokens>', 'tokens of context; when left out, 2048 to 32768 by the free memory'],
      ['--slots <n>', 'answers at once, with a context each; as many as there is memory for when left out'],
      ['--chat-template <file>', 'a chat template in Jinja, instead of that of a GGUF model'],
      ['--node <node>', 'on this node and no other'],
      ['--exclude <node...>', 'nodes that take no part, by id, install id or name'],
      ['--dry-run', 'show where it would go; place nothing'],
      ['--explain', 'show the sums of memory, node by node, and what would make it fit'],
      ['--ttl <seconds>', 'unload it after so long without a request'],
      ['--force', 'do not check memory; the event log tells of it'],
      ['-y, --yes', 'fetch the engine it runs on, where that is missing here, without asking'],
      ['--wait [seconds]', 'wait at most so long, else exit 4 (as long as it gets on when no time is given)'],
      ['--no-wait', 'place it and return']
    ],
    examples: [
      'svc place svc/voice-en --node attic', 'svc place acme/chat --dry-run --explain',
      'svc place acme/chat --min-nodes 2 --exclude attic --wait=300'
    ],
    load: () => import('./place.js')
  },
  ps: {
    heading: 'Keep models',
    summary: 'list the instances, and what waits for a place: model, nodes, state, memory',
    examples: ['svc ps', 'svc ps --json | jq -r \'.instances[] | select(.state == "ready") | .instanceId\''],
    load: () => import('./ps.js')
  },
  stop: {
    heading: 'Keep models',
    summary: 'stop an instance, or all instances of a model, when open requests have ended; the files stay',
    args: '<instance-or-model>',
    options: [
      ['--now', 'do not wait for open requests: they end with an error'],
      ['--wait [seconds]', 'come back when it is gone; exit 4 when the time is up'],
      ['-y, --yes', 'do not ask when there are several']
    ],
    examples: ['svc stop svc/voice-en', 'svc stop 7d0f8a52 --now', 'svc stop -y acme/chat --wait=60'],
    load: () => import('./stop.js')
  },
  drain: {
    heading: 'Run a cluster',
    summary: 'run no models on a node: nothing is placed there, and what it runs moves to others',
    args: '<node>',
    options: [['--wait [seconds]', 'come back when it runs nothing; exit 4 when the time is up']],
    examples: ['svc drain attic', 'svc drain attic --wait=600 && ssh attic sudo reboot'],
    load: () => import('./drain.js')
  },
  undrain: {
    heading: 'Run a cluster',
    summary: 'let a drained node run models again',
    args: '<node>',
    examples: ['svc undrain attic'],
    load: () => import('./undrain.js')
  },
  why: {
    heading: 'Watch it',
    summary: 'show what keeps a model from answering, or what became of a request (command or task id)',
    args: '<model-or-id>',
    explainsCommands: true,
    examples: [
      'svc why acme/chat', 'svc why svc/voice-en --json', 'svc why 6f0d5f9e-8f1c-4a52-9a39-0f3d5a1c2b44'
    ],
    load: () => import('./why.js')
  }
} satisfies Record<string, VerbDecl>
