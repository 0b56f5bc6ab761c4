import { serverEvents } from '../../../kernel/index.js'
import {
  failureWithin, isVerbError, plain, readPipe, retryUntil, visible, type Verb, type VerbContext
} from '../../../kernel/cli/index.js'
import { converse } from '../../chat/cli/converse.js'
import type { Turn, TurnEvent } from '../types.js'

const ROUTE = '/v1/steward/ask'
/** Limit on bytes read from a pipe; the route rejects questions that are too long for it. */
const PIPE_MAX = 64 * 1024

/** `svc ask`: answers one question from the arguments or a pipe, or else starts a conversation. */
export default {
  async run (ctx, words) {
    if (words.length === 0 && ctx.io.stdin.isTTY === true) return await talk(ctx)
    const question = await questionOf(ctx, words.join(' '))
    if (question === '') throw ctx.fail(2, 'there is no question: svc ask "is everything fine?"')
    await answered(ctx, { question, thread: [] }, ctx.signal)
    if (ctx.signal.aborted) throw ctx.fail(130, 'interrupted')
  }
} satisfies Verb

/** The question in the arguments; without arguments, or for `-`, the text from the pipe. */
async function questionOf (ctx: VerbContext, words: string): Promise<string> {
  if (words !== '' && words !== '-') return words.trim()
  const bytes = await readPipe(ctx, PIPE_MAX)
  if (bytes.length > PIPE_MAX) throw ctx.fail(2, `the question of the pipe is over ${PIPE_MAX} bytes`)
  return bytes.toString('utf8').trim()
}

/** Limit on messages from the conversation to send; older ones are left out. */
const THREAD_MAX = 20

/** Runs a conversation at the prompt. */
async function talk (ctx: VerbContext): Promise<number> {
  let thread: Turn[] = []
  return await converse(ctx, {
    about: 'svc/steward',
    async answer (question, signal) {
      const text = await answered(ctx, { question, thread: thread.slice(-THREAD_MAX) }, signal)
      if (!signal.aborted) thread = [...thread, { role: 'user', text: question }, { role: 'assistant', text }]
      return signal.aborted
    },
    forget () { thread = [] }
  })
}

/**
 * Asks a question and prints the answer as it arrives, or with `--json` when it is complete. Returns the
 * answer's text. The signal aborts this answer, not the conversation. Throws VerbError.
 */
async function answered (
  ctx: VerbContext, asked: { question: string, thread: readonly Turn[] }, signal: AbortSignal
): Promise<string> {
  let text = ''
  try {
    await retryUntil(ctx, () => signal.aborted || text !== '', async () => {
      if (ctx.out.json) {
        const answer = await ctx.client.json<{ text: string }>(ROUTE, { body: asked, signal })
        ctx.out.value(answer)
        text = answer.text
        return
      }
      for await (const piece of piecesOf(ctx, asked, signal)) {
        ctx.err.end()
        text += piece
        await ctx.out.bytes(Buffer.from(visible(piece)))
      }
    })
  } catch (error) {
    if (!signal.aborted) throw withHint(ctx, error)
  } finally {
    ctx.err.end()
    if (text !== '' && !text.endsWith('\n') && !ctx.out.json) await ctx.out.bytes(Buffer.from('\n'))
  }
  return text
}

/** The texts of a streamed answer. Throws VerbError, including when the stream breaks off. */
async function * piecesOf (ctx: VerbContext, asked: object, signal: AbortSignal): AsyncGenerator<string> {
  const { bytes } = await ctx.client.open(ROUTE,
    { body: { ...asked, stream: true }, accept: 'text/event-stream', signal })
  let complete = false
  for await (const part of serverEvents(bytes)) {
    if (part.kind === 'comment') continue
    const event = eventOf(ctx, part.data)
    if (event.type === undefined) throw failureWithin(event.error)
    if (event.type === 'text') yield event.text
    complete ||= event.type === 'answer'
  }
  if (!complete) throw ctx.fail(1, 'the answer broke off; the log of the node says why')
}

type StreamedEvent = TurnEvent | { readonly type?: undefined, readonly error: Record<string, unknown> }

function eventOf (ctx: VerbContext, data: string): StreamedEvent {
  try {
    return JSON.parse(data)
  } catch {
    throw ctx.fail(1, `the answer has an event that is no JSON: ${plain(data.slice(0, 200))}`)
  }
}

/** If no node answers, adds the commands that inspect this machine without a node. */
function withHint (ctx: VerbContext, error: unknown): unknown {
  if (!isVerbError(error) || error.exitCode !== 7 || error.status !== undefined) return error
  return ctx.fail(7, `${error.message}\n  \`svc doctor\` says what is wrong here without a node`)
}
