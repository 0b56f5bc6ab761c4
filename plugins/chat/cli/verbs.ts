import type { VerbDecl } from '../../../kernel/index.js'
import { parametersOf } from '../../runners/language/sampling.js'

const samplingOptions = parametersOf('cli').map(({ flag, cli }): [string, string] =>
  [`${flag} ${cli!.value}`, cli!.help])

export const verbs = {
  help: {
    heading: 'Set it up', summary: 'show help for a verb, answer a question about svc', args: '[topic...]',
    examples: [
      'svc help place', 'svc help how do I pull a model', 'svc help no_quorum --json',
      'svc say hello 2>&1 | svc help -'
    ],
    load: () => import('./help.js')
  },
  run: {
    heading: 'Use models',
    summary: 'run a model, downloaded and placed if necessary: one answer, or a conversation',
    args: '<model> [prompt...]',
    options: [
      ['--system <text>', 'system message'],
      ['--max-tokens <n>', 'most tokens of the answer (4096, fewer if it repeats itself)'],
      ...samplingOptions,
      ['--stats', 'show the tokens per second, on stderr'],
      ['-y, --yes', 'download a missing model and its engine without asking'],
      ['--wait [seconds]', 'wait at most this long until the model is ready']
    ],
    examples: [
      'svc run acme/chat:Q4_K_M "How do I place a model?"', 'svc run acme/chat',
      'svc run ./chat-Q4_K_M.gguf "hello"',
      'svc run acme/chat "Summarise this:" < notes.txt',
      'svc run acme/chat "hello" --json | jq -r \'.choices[0].delta.content // empty\''
    ],
    load: () => import('./run.js')
  },
  show: {
    heading: 'Keep models', summary: 'show a model: its card, copies, instances and supported fields',
    args: '<model>', examples: ['svc show svc/voice-en', 'svc show acme/chat --json'],
    load: () => import('./show.js')
  },
  bench: {
    heading: 'Use models', summary: 'measure a chat model: time to the first token, speed, errors',
    args: '<model>',
    options: [
      ['--requests <n>', 'measured requests, after one to warm up (10)'],
      ['--concurrency <n>', 'parallel requests, 1 to 256 (1)'],
      ['--max-tokens <n>', 'most tokens of an answer (64)'],
      ['--prompt-tokens <n>', 'approximate length of a prompt in words (64)'],
      ['--wait [seconds]', 'wait until the model is ready']
    ],
    examples: ['svc bench acme/chat --requests 64 --concurrency 8'],
    load: () => import('./bench.js')
  }
} satisfies Record<string, VerbDecl>
