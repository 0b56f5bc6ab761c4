import { serverEvents } from '../../../kernel/index.js'
import { plain } from '../../../kernel/cli/index.js'
import type { VerbContext, VerbError } from '../../../kernel/cli/index.js'
import { fieldsOf, isObject, numberOf, parsed, textOf } from '../json.js'
import type { Sampling } from '../sampling.js'

/** One message of a conversation. */
export interface ChatMessage { role: 'system' | 'user' | 'assistant', content: string }

/** What is asked for, as the route takes it. */
export interface ChatAsk extends Sampling {
  model: string
  messages: readonly ChatMessage[]
  max_tokens?: number
}

/** A chunk of the stream, as it came. */
export type ChatChunk = Readonly<Record<string, unknown>>

/** What the node says of the work behind an answer. Null where it does not say. */
export interface GenerationStats {
  promptTokens: number | null
  promptRate: number | null
  tokens: number | null
  /** Tokens per second. */
  rate: number | null
}

/** What a stream brings. */
export type AnswerPart =
  | { readonly kind: 'chunk', readonly chunk: ChatChunk }
  | { readonly kind: 'stats', readonly stats: GenerationStats }

/** What a verb needs to ask. */
type Asker = Pick<VerbContext, 'client' | 'fail'>

/**
 * Asks a model and yields its answer as it comes. Leaving the loop or aborting the signal closes the
 * stream, which cancels the work. Throws VerbError for a refusal, an error in the stream and a stream that
 * breaks off.
 */
export async function * answerOf (
  ctx: Asker, ask: ChatAsk, signal: AbortSignal
): AsyncGenerator<AnswerPart> {
  const { bytes } = await ctx.client.open('/v1/chat/completions',
    { body: { ...ask, stream: true }, accept: 'text/event-stream', signal })
  let complete = false
  for await (const part of serverEvents(bytes)) {
    // Read to its end: a connection that is closed before would look like a cancelled request.
    if (complete) continue
    if (part.kind === 'comment') {
      const stats = readStats(part.text)
      if (stats !== undefined) yield { kind: 'stats', stats }
    } else if (part.data === '[DONE]') complete = true
    else yield { kind: 'chunk', chunk: readChunk(ctx, part.data) }
  }
  if (complete) return
  throw ctx.fail(1, 'the answer broke off: its stream ended without [DONE]; the log of the node says why')
}

/** The texts of a chunk's first choice, and why that choice ended. */
export function readDelta (chunk: ChatChunk): { text: string, thought: string, finish: string | null } {
  const [choice] = (Array.isArray(chunk['choices']) ? chunk['choices'] : []) as unknown[]
  const delta = fieldsOf(fieldsOf(choice)['delta'])
  const finish = fieldsOf(choice)['finish_reason']
  return {
    text: textOf(delta['content']),
    thought: textOf(delta['reasoning_content']),
    finish: typeof finish === 'string' ? finish : null
  }
}

/** The tokens of the answer that a chunk tells of; null when it does not. */
export const usedTokens = (chunk: ChatChunk): number | null =>
  numberOf(fieldsOf(chunk['usage'])['completion_tokens']) ?? null

function readChunk (ctx: Asker, data: string): ChatChunk {
  const value = parsed(data)
  if (!isObject(value)) {
    throw ctx.fail(1, `the stream has an event that is no chunk: ${plain(data.slice(0, 200))}`)
  }
  if (isObject(value['error'])) throw failureOf(ctx, value['error'])
  return value
}

/** An error in the stream ends the command with 1: the answer had begun. */
function failureOf (ctx: Asker, error: Record<string, unknown>): VerbError {
  const { message, reason, code } = error
  const remedy = fieldsOf(error['details'])['remedy']
  const words = typeof reason === 'string' ? ` (${String(code)} ${reason})` : ''
  const said = plain(`${textOf(message) || 'the answer failed'}${words}`)
  const failure = ctx.fail(1, typeof remedy === 'string' ? `${said}\n  ${plain(remedy)}` : said)
  // With --json the error object of the node is shown, as for a refusal.
  return words === '' ? failure : Object.assign(failure, { api: error })
}

const STATS = 'generation_stats '

function readStats (comment: string): GenerationStats | undefined {
  if (!comment.startsWith(STATS)) return undefined
  const value = fieldsOf(parsed(comment.slice(STATS.length)))
  return {
    promptTokens: numberOf(value['prompt_tokens']) ?? null,
    promptRate: numberOf(value['prompt_tps']) ?? null,
    tokens: numberOf(value['generation_tokens']) ?? null,
    rate: numberOf(value['generation_tps']) ?? null
  }
}
