import type { VerbDecl } from '../../../kernel/index.js'
import { parametersOf } from '../sampling.js'

const samplingOptions = parametersOf('cli').map(({ flag, cli }): [string, string] =>
  [`${flag} ${cli!.value}`, cli!.help])

/** The verbs about talking to models, about one model, and the answers of the guide. */
export const verbs = {
  help: {
    heading: 'Set it up',
    summary: 'show help for a verb, answer a question about svc',
    args: '[topic...]',
    examples: [
      'svc help place', 'svc help how do I pull a model', 'svc help no_quorum --json',
      'svc say hello 2>&1 | svc help -'
    ],
    load: () => import('./help.js')
  },
  run: {
    heading: 'Use models',
    summary: 'ask a model, fetched and placed first where need be: one answer, else a conversation',
    args: '<model> [prompt...]',
    options: [
      ['--system <text>', 'what the model is told first'],
      ['--max-tokens <n>', 'end the answer after so many tokens (4096, sooner if it repeats itself)'],
      ...samplingOptions,
      ['--stats', 'show the tokens per second, on stderr'],
      ['-y, --yes', 'fetch a model, and the engine it runs on, without asking where they are not here'],
      ['--wait [seconds]', 'wait at most so long until the model is ready']
    ],
    examples: [
      'svc run acme/chat:Q4_K_M "How do I place a model?"', 'svc run acme/chat',
      'svc run acme/chat "Summarise this:" < notes.txt',
      'svc run acme/chat "hello" --json | jq -r \'.choices[0].delta.content // empty\''
    ],
    load: () => import('./run.js')
  },
  show: {
    heading: 'Keep models',
    summary: 'show what is known of a model: its card, where it is, its instances, what it supports',
    args: '<model>',
    examples: ['svc show svc/voice-en', 'svc show acme/chat --json'],
    load: () => import('./show.js')
  },
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
        'archives of a release that are here already; for cuda also that of its libraries'],
      ['--sha256 <hex...>', 'SHA-256 of each archive, for a release that svc does not know']
    ],
    examples: [
      'svc engine add llama.cpp', 'svc engine add llama.cpp --build b11146 --backend vulkan',
      'svc engine add llama.cpp --from llama-b11146-bin-ubuntu-x64.tar.gz'
    ],
    load: async () => ({ default: (await import('./engine.js')).add })
  },
  'engine rm': {
    heading: 'Keep models', local: true,
    summary: 'remove a build of llama.cpp that no runner uses',
    args: '<engine> <build>',
    examples: ['svc engine rm llama.cpp b11146-cpu'],
    load: async () => ({ default: (await import('./engine.js')).rm })
  },
  bench: {
    heading: 'Use models',
    summary: 'measure a chat or tts model: time to the first token or sound, speed, errors',
    args: '<model>',
    options: [
      ['--requests <n>', 'how many are measured after one to warm up (10)'],
      ['--concurrency <n>', 'how many at once, 1 to 256 (1)'],
      ['--max-tokens <n>', 'longest answer of a chat model (64)'],
      ['--prompt-tokens <n>', 'about how long a prompt is, in words (64; 24 for tts)'],
      ['--wait [seconds]', 'wait until the model is ready']
    ],
    examples: [
      'svc bench acme/chat --requests 64 --concurrency 8',
      'svc bench svc/voice-en --json | jq .realTimeFactor'
    ],
    load: () => import('./bench.js')
  }
} satisfies Record<string, VerbDecl>
