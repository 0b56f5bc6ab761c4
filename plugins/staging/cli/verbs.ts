import type { VerbDecl } from '../../../kernel/index.js'

export const verbs = {
  pull: {
    heading: 'Keep models',
    summary: 'bring a model into the store: from the hub, a folder, another node, the hub\'s cache or Ollama',
    args: '<model-address-or-folder>',
    options: [
      ['--revision <r>', 'branch, tag or commit of the hub; org/name@revision says the same'],
      ['--variant <v>', 'which weights: q4, fp16, Q4_K_M and so on; org/name:q4 says the same'],
      ['--allow <pattern...>', 'only files whose path fits one of these patterns (* ? **)'],
      ['--as <org/name>', 'what to call a folder (its card.yaml says, else local/FOLDER) or Ollama\'s model'],
      ['--from <node>', 'from the copy of this node: id, install id or name'],
      ['--background', 'start it and return'],
      ['-y, --yes', 'fetch the engine it runs on, where that is missing here, without asking']
    ],
    examples: [
      'svc pull acme/voice', 'svc pull acme/chat@v2 --variant q4', 'svc pull hf.co/acme/chat:Q4_K_M',
      'svc pull https://huggingface.co/acme/chat/blob/main/chat-Q4_K_M.gguf',
      'svc pull cache:acme/chat:Q4_K_M', 'svc pull ollama:llama3.2:1b --as acme/llama',
      'svc pull ./my-voice --as acme/voice',
      'svc pull acme/voice --from attic --background'
    ],
    load: () => import('./pull.js')
  },
  search: {
    heading: 'Keep models',
    summary: 'search the public hub for models by name: those that run here first',
    args: '<words...>',
    options: [['--limit <n>', 'at most so many of each format (20)']],
    examples: ['svc search qwen 0.5b', 'svc search --json kokoro | jq -r \'.models[].modelId\''],
    load: () => import('./search.js')
  },
  ls: {
    heading: 'Keep models',
    summary: 'list the models: size, which nodes have them, what is ready',
    examples: ['svc ls', 'svc ls --json | jq -r \'.models[] | select(.state == "ready") | .modelId\''],
    load: () => import('./ls.js')
  },
  rm: {
    heading: 'Keep models',
    summary: 'remove models from the store, and their staged copies that are not in use',
    args: '<model...>',
    options: [['-y, --yes', 'do not ask']],
    examples: ['svc rm acme/voice', 'svc rm -y acme/voice acme/chat'],
    load: () => import('./rm.js')
  },
  purge: {
    heading: 'Keep models',
    summary: 'remove staged copies that are not in use, on every node; the store keeps its own',
    args: '[model]',
    options: [['-y, --yes', 'do not ask'], ['--dry-run', 'only show what there is to remove']],
    examples: ['svc purge --dry-run', 'svc purge acme/voice', 'svc purge -y --json'],
    load: () => import('./purge.js')
  },
  stage: {
    heading: 'Keep models',
    summary: 'copy a model of the store to nodes, and wait until it is there',
    args: '<model>',
    options: [
      ['--node <ref...>', 'nodes by id, install id or name (the one that is asked when none is given)'],
      ['--all', 'every node that is live'],
      ['--wait [seconds]', 'wait at most so long, else exit 4 (until it is done when no time is given)'],
      ['--no-wait', 'start it and return']
    ],
    examples: ['svc stage acme/voice --node attic cellar', 'svc stage acme/voice --all --wait=600'],
    load: () => import('./stage.js')
  },
  downloads: {
    heading: 'Keep models',
    summary: 'list the downloads into the store and the copies under way to nodes; pause, resume, cancel',
    args: '[action] [model]',
    examples: ['svc downloads', 'svc downloads pause acme/chat', 'svc downloads --json'],
    load: () => import('./downloads.js')
  }
} satisfies Record<string, VerbDecl>
