import type { VerbDecl } from '../../../kernel/index.js'
import { parametersOf } from '../../runners/language/sampling.js'

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
