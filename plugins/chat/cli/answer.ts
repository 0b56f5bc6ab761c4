import { serverEvents } from '../../../kernel/index.js'
import { failureWithin, plain } from '../../../kernel/cli/index.js'
import { fieldsOf, isObject, listOf, numberOf, parsed, textOf } from '../../runners/language/json.js'
import type { VerbContext } from '../../../kernel/cli/index.js'
import type { Fields } from '../../runners/language/json.js'
import type { Sampling } from '../../runners/language/sampling.js'

export interface ChatMessage { role: 'system' | 'user' | 'assistant', content: string }

/** Request fields that chat and completion requests share. */
export interface ModelRequest extends Sampling { model: string, max_tokens?: number }

export type AnswerRequest = ModelRequest & { messages: readonly ChatMessage[] }

/** A chunk of the stream, or the statistics of the finished answer. */
export type AnswerPart =
  | { readonly kind: 'chunk', readonly chunk: Fields }
  | { readonly kind: 'stats', readonly stats: Fields }

type Requester = Pick<VerbContext, 'client' | 'fail'>

const STATS = 'generation_stats '

/**
 * Sends a chat request and yields its answer. Leaving the loop or aborting the signal closes the stream,
 * which cancels the request. Throws VerbError for a refusal, an error in the stream, and a stream that ends
 * early.
 */
export async function * answerOf (
  ctx: Requester, request: AnswerRequest, signal: AbortSignal
): AsyncGenerator<AnswerPart> {
  const { bytes } = await ctx.client.open('/v1/chat/completions',
    { body: { ...request, stream: true }, accept: 'text/event-stream', signal })
  let complete = false
  for await (const part of serverEvents(bytes)) {
    // Read to the end, because closing the connection earlier would look like a cancelled request.
    if (complete) continue
    if (part.kind === 'event') {
      complete = part.data === '[DONE]'
      if (!complete) yield { kind: 'chunk', chunk: readChunk(ctx, part.data) }
    } else if (part.text.startsWith(STATS)) {
      yield { kind: 'stats', stats: fieldsOf(parsed(part.text.slice(STATS.length))) }
    }
  }
  if (complete) return
  throw ctx.fail(1, 'the answer ended early: its stream has no [DONE]; check the log of the node')
}

/** The texts of a chunk's first choice, and its finish reason. */
export function readDelta (chunk: Fields): { text: string, thought: string, finish: string | null } {
  const { delta, finish_reason: finish } = listOf(chunk['choices'])[0] ?? {}
  const { content, reasoning_content: thought } = fieldsOf(delta)
  return {
    text: textOf(content), thought: textOf(thought),
    finish: typeof finish === 'string' ? finish : null
  }
}

/** Number of completion tokens, if the chunk reports it. */
export const usedTokens = (chunk: Fields): number | undefined =>
  numberOf(fieldsOf(chunk['usage'])['completion_tokens'])

function readChunk (ctx: Requester, data: string): Fields {
  const value = parsed(data)
  if (!isObject(value)) {
    throw ctx.fail(1, `the stream has an invalid chunk: ${plain(data.slice(0, 200))}`)
  }
  if (isObject(value['error'])) throw failureWithin(value['error'])
  return value
}
