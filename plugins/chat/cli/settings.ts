import type { VerbContext } from '../../../kernel/cli/index.js'
import { parametersOf, samplingOf } from '../sampling.js'
import { COUNT, readNumber } from './api.js'
import type { ChatAsk, ChatMessage } from './answer.js'

/** What stays the same from question to question. */
export interface Settings {
  sampling: Omit<ChatAsk, 'messages'>
  /** What the model is told first; empty for nothing. */
  system: string
  stats: boolean
}

/** Reads the options of `svc run`. Throws VerbError (2). */
export function readSettings (ctx: VerbContext, model: string, options: Record<string, unknown>): Settings {
  const given = parametersOf('cli').map(({ name, field, flag, min, max, whole = false }) =>
    [name, readNumber(ctx, flag, options[field], { min, max, whole })])
  const maxTokens = readNumber(ctx, '--max-tokens', options['maxTokens'], COUNT)
  return {
    sampling: {
      model,
      ...samplingOf('cli', Object.fromEntries(given) as object),
      ...maxTokens === undefined ? {} : { max_tokens: maxTokens }
    },
    system: (options['system'] as string | undefined) ?? '',
    stats: options['stats'] === true
  }
}

/** The request for the next answer of a conversation. */
export function askOf ({ sampling, system }: Settings, messages: readonly ChatMessage[]): ChatAsk {
  const first: ChatMessage[] = system === '' ? [] : [{ role: 'system', content: system }]
  return { ...sampling, messages: [...first, ...messages] }
}
