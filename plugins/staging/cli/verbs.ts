import type { VerbDecl } from '../../../kernel/index.js'

export const verbs = {
  pull: {
    heading: 'Keep models',
    summary: 'add a model to the store: from the hub, a file or folder, or another node',
    args: '<model-address-or-path>',
    options: [
      ['--revision <r>', 'branch, tag or commit of the hub; same as org/name@revision'],
      ['--variant <v>', 'which weights: q4, fp16, Q4_K_M and so on; same as org/name:q4'],
      ['--allow <pattern...>', 'only files whose path matches one of these patterns (* ? **)'],
      ['--as <org/name>', 'name of a path (default: from card.yaml, else local/NAME)'],
      ['--from <node>', 'copy it from this node: id, install id or name'],
      ['--background', 'start the download and return'],
      ['-y, --yes', 'install a missing engine without asking']
    ],
    examples: [
      'svc pull acme/voice', 'svc pull acme/chat@v2 --variant q4', 'svc pull hf.co/acme/chat:Q4_K_M',
      'svc pull https://huggingface.co/acme/chat/blob/main/chat-Q4_K_M.gguf',
      'svc pull ./my-voice --as acme/voice', 'svc pull ./chat-Q4_K_M.gguf',
      'svc pull acme/voice --from attic --background'
    ],
    load: () => import('./pull.js')
  },
  search: {
    heading: 'Keep models', summary: 'search the public hub for models by name, runnable formats first',
    args: '<words...>', options: [['--limit <n>', 'at most this many of each format (20)']],
    examples: ['svc search qwen 0.5b', 'svc search --json kokoro | jq -r \'.models[].modelId\''],
    load: () => import('./search.js')
  },
  ls: {
    heading: 'Keep models', summary: 'list the models: size, which nodes have them, what is ready',
    examples: ['svc ls', 'svc ls --json | jq -r \'.models[] | select(.state == "ready") | .modelId\''],
    load: () => import('./ls.js')
  },
  rm: {
    heading: 'Keep models', summary: 'remove models from the store, and their unused staged copies',
    args: '<model...>', options: [['-y, --yes', 'do not ask']],
    examples: ['svc rm acme/voice', 'svc rm -y acme/voice acme/chat'], load: () => import('./rm.js')
  },
  purge: {
    heading: 'Keep models', summary: 'remove unused staged copies on every node; the store keeps its models',
    args: '[model]', options: [['-y, --yes', 'do not ask'], ['--dry-run', 'only list the copies to remove']],
    examples: ['svc purge --dry-run', 'svc purge acme/voice', 'svc purge -y --json'],
    load: () => import('./purge.js')
  },
  stage: {
    heading: 'Keep models', summary: 'copy a model from the store to nodes, and wait for it', args: '<model>',
    options: [
      ['--node <ref...>', 'nodes by id, install id or name (default: the node that receives the request)'],
      ['--all', 'every live node'],
      ['--wait [seconds]', 'wait at most this long, then exit 4 (default: until it is done)'],
      ['--no-wait', 'start the transfer and return']
    ],
    examples: ['svc stage acme/voice --node attic cellar', 'svc stage acme/voice --all --wait=600'],
    load: () => import('./stage.js')
  },
  downloads: {
    heading: 'Keep models',
    summary: 'list downloads into the store and transfers to nodes; pause, resume or cancel downloads',
    args: '[action] [model]',
    examples: ['svc downloads', 'svc downloads pause acme/chat', 'svc downloads --json'],
    load: () => import('./downloads.js')
  }
} satisfies Record<string, VerbDecl>
