import { serverEvents } from '../../../kernel/index.js'
import { failureWithin, plain } from '../../../kernel/cli/index.js'
import { fieldsOf, isObject, listOf, numberOf, parsed, textOf } from '../../runners/language/json.js'
import type { VerbContext } from '../../../kernel/cli/index.js'
import type { Fields } from '../../runners/language/json.js'
import type { Sampling } from '../../runners/language/sampling.js'

/** One message of a conversation. */
export interface ChatMessage { role: 'system' | 'user' | 'assistant', content: string }

/** What requests to a model have in common. */
export interface ModelRequest extends Sampling {
  model: string
  max_tokens?: number
}

/** A request of the chat route. */
export type AnswerRequest = ModelRequest & { messages: readonly ChatMessage[] }

/** What a stream brings: chunks as they came, and figures of the work behind the answer. */
export type AnswerPart =
  | { readonly kind: 'chunk', readonly chunk: Fields }
  | { readonly kind: 'stats', readonly stats: Fields }

/** What a verb needs to ask. */
type Asker = Pick<VerbContext, 'client' | 'fail'>

const STATS = 'generation_stats '

/**
 * Asks a model and yields its answer as it comes. Leaving the loop or aborting the signal closes the
 * stream, which cancels the work. Throws VerbError for a refusal, an error in the stream and a stream that
 * breaks off.
 */
export async function * answerOf (
  ctx: Asker, request: AnswerRequest, signal: AbortSignal
): AsyncGenerator<AnswerPart> {
  const { bytes } = await ctx.client.open('/v1/chat/completions',
    { body: { ...request, stream: true }, accept: 'text/event-stream', signal })
  let complete = false
  for await (const part of serverEvents(bytes)) {
    // Read to its end: a connection that is closed before would look like a cancelled request.
    if (complete) continue
    if (part.kind === 'event') {
      complete = part.data === '[DONE]'
      if (!complete) yield { kind: 'chunk', chunk: readChunk(ctx, part.data) }
    } else if (part.text.startsWith(STATS)) {
      yield { kind: 'stats', stats: fieldsOf(parsed(part.text.slice(STATS.length))) }
    }
  }
  if (complete) return
  throw ctx.fail(1, 'the answer broke off: its stream ended without [DONE]; the log of the node says why')
}

/** The texts of a chunk's first choice, and why that choice ended. */
export function readDelta (chunk: Fields): { text: string, thought: string, finish: string | null } {
  const { delta, finish_reason: finish } = listOf(chunk['choices'])[0] ?? {}
  const { content, reasoning_content: thought } = fieldsOf(delta)
  return {
    text: textOf(content), thought: textOf(thought),
    finish: typeof finish === 'string' ? finish : null
  }
}

/** The tokens of the answer that a chunk reports; undefined when it reports none. */
export const usedTokens = (chunk: Fields): number | undefined =>
  numberOf(fieldsOf(chunk['usage'])['completion_tokens'])

function readChunk (ctx: Asker, data: string): Fields {
  const value = parsed(data)
  if (!isObject(value)) {
    throw ctx.fail(1, `the stream has an event that is no chunk: ${plain(data.slice(0, 200))}`)
  }
  if (isObject(value['error'])) throw failureWithin(value['error'])
  return value
}
