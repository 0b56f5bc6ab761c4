/** Pieces of answers that several of OpenAI's routes share. Pure. */
import type { TokenReport } from '../engine/mailbox.js'
import type { ErrorBody } from '../../../kernel/index.js'
import type { Framing } from './answer.js'
import type { Totals } from './pieces.js'

/** `usage` of an answer. */
export function usageOf ({ promptTokens, completionTokens, cachedTokens }: Totals): Record<string, unknown> {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens }
  }
}

/** `logprobs` of tokens, as the chat route shows them; null for none. */
export function chatLogprobs (tokens: readonly TokenReport[]): object | null {
  if (tokens.length === 0) return null
  const content = tokens.map(({ text, logprob, top }) => ({
    ...tokenLogprob(text, logprob),
    top_logprobs: top.map((each) => tokenLogprob(each.text, each.logprob))
  }))
  return { content, refusal: null }
}

const tokenLogprob = (token: string, logprob: number | null) => ({
  token, logprob,
  // A part of a character has no text of its own, so its bytes are not known here.
  bytes: token.includes('\ufffd') ? null : [...Buffer.from(token)]
})

const comment = (text: string): string => `: ${text}\n\n`
/** One server-sent event. */
export const dataEvent = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

/** Server-sent events with svc's comments, ended by `[DONE]`. */
export const openAiFraming: Framing = {
  contentType: 'text/event-stream',
  begin: (commandId) => comment('keep-alive') + comment(`command_id ${commandId}`),
  value: dataEvent,
  end: (totals) => comment(`generation_stats ${JSON.stringify(statsOf(totals))}`) + 'data: [DONE]\n\n',
  beat: comment('keep-alive'),
  failed: (error: ErrorBody) => dataEvent(error)
}

/** Figures of an answer: tokens per second and bytes. */
export function statsOf (totals: Totals): Record<string, unknown> {
  return {
    prompt_tps: totals.promptRate,
    generation_tps: totals.generationRate,
    prompt_tokens: totals.promptTokens,
    generation_tokens: totals.completionTokens,
    peak_memory_usage: { inBytes: totals.peakMemoryBytes }
  }
}
