import { beating, deadline, errorBody, kernelError, raceAbort, toSvcError } from '../../kernel/index.js'
import type { Caller, Clock, Logger, RouteRequest, StreamWriter, SvcError } from '../../kernel/index.js'
import { Admission } from '../capabilities/service.js'
import type { routes } from './routes.js'
import type { ToolboxParts } from './toolbox.js'
import type { Answer, Question, TurnEvent } from './types.js'
import type { WordingModel } from './voice/keep.js'

/** Limits on concurrent and queued turns on this node. */
const TURNS = { concurrency: 8, queue: 16 }
/** Timeout of a turn in ms, including its time in the queue. */
const TURN_MS = 30_000
/** Milliseconds between keep-alive comments in a silent stream. */
const BEAT_MS = 10_000
const EVENTS = { contentType: 'text/event-stream' }

/** The caller, and the signal that ends the caller's wait. */
export interface Asker { readonly caller: Caller, readonly signal: AbortSignal }

export interface TurnParts extends ToolboxParts { readonly log: Logger, readonly model: WordingModel }

/** Answers a question and reports its progress; the last event is the answer. */
export type Voice = (parts: TurnParts, question: Question, asker: Asker) => AsyncGenerator<TurnEvent>

export interface DeskParts extends TurnParts {
  readonly voice: Voice
  /** Why the steward refuses questions at the moment; null if it accepts them. */
  refusal (): SvcError | null
}

export type Desk = ReturnType<typeof createDesk>

export function createDesk (parts: DeskParts) {
  const { clock, log, refusal, voice } = parts
  const door = new Admission('steward', clock, TURNS)
  /** Answers a question. Throws the `refusal`, `overloaded`, `timeout` (30 s), or the signal's reason. */
  const turn = async function * (
    question: Question, { caller, signal: outer }: Asker
  ): AsyncGenerator<TurnEvent> {
    const refused = refusal()
    if (refused !== null) throw refused
    if (!caller.authorities.has('read')) {
      yield * mayNotLook()
      return
    }
    const { signal, stop } = deadline(clock, TURN_MS, () =>
      kernelError('timeout', `The steward had no whole answer within ${TURN_MS / 1000} seconds.`), outer)
    try {
      const release = await door.enter(caller.id, signal)
      try { yield * until(voice(parts, question, { caller, signal }), signal) } finally { release() }
    } finally {
      stop()
    }
  }
  return {
    refusal,
    turn,
    /** Handles POST /v1/steward/ask. */
    async ask (request: RouteRequest<typeof routes.ask>): Promise<unknown> {
      const { question: text, thread = [], stream } = request.body
      if (text.trim() === '') throw kernelError('invalid_request', 'question is empty', { param: 'question' })
      const events = turn({ text, thread }, request)
      return stream === true ? await answerStream(events, request, { clock, log }) : await wholeOf(events)
    }
  }
}

/** The answer to a caller without the authority `read`, for whom no cluster data may be read. */
function * mayNotLook (): Generator<TurnEvent> {
  const diagnosis = 'I may not look at the cluster for you: your credential lacks the authority `read`.'
  const remedy = 'Ask with a token that has it: `svc token create asker --authority read invoke`.'
  yield { type: 'text', text: `${diagnosis}\n${remedy}\n` }
  yield {
    type: 'answer',
    answer: {
      diagnosis, sure: true, facts: [], evidence: [], remedies: [remedy],
      unknown: ['Everything: nothing was looked at.'], voice: 'reader', calls: []
    }
  }
}

/** Yields from the source; on abort throws the signal's reason without waiting for the source. */
async function * until<T> (source: AsyncGenerator<T>, signal: AbortSignal): AsyncGenerator<T> {
  try {
    for (;;) {
      const step = await raceAbort(source.next(), signal)
      if (step.done === true) return
      yield step.value
    }
  } finally {
    // Not awaited, because after an abort the source may never return.
    source.return(undefined).catch(() => {})
  }
}

async function wholeOf (events: AsyncIterable<TurnEvent>): Promise<Answer & { text: string }> {
  let [answer, text]: [Answer | null, string] = [null, '']
  for await (const event of events) {
    if (event.type === 'text') text += event.text
    if (event.type === 'answer') answer = event.answer
  }
  return { ...answer!, text }
}

/** Sends server-sent events. A failure before the first one is an error response; later, it is an event. */
async function answerStream (
  events: AsyncIterable<TurnEvent>, request: RouteRequest, { clock, log }: { clock: Clock, log: Logger }
): Promise<void> {
  let writer: StreamWriter | undefined
  try {
    for await (const event of beating(events, clock, BEAT_MS, null)) {
      writer ??= request.open(EVENTS)
      await writer.write(event === null ? ': keep-alive\n\n' : data(event))
    }
  } catch (error) {
    if (writer === undefined || writer.closed) throw error
    const known = toSvcError(error)
    if (known !== error) log.error({ err: error, requestId: request.requestId }, 'an answer failed')
    await writer.write(data(errorBody(known, request.requestId)))
  }
  await writer?.end()
}

const data = (value: object): string => `data: ${JSON.stringify(value)}\n\n`
