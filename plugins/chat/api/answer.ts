/** Runs a task and answers with it: as a stream, or whole. */
import { runTask } from '../../runners/service.js'
import { Collector, piecesOf, Totals } from './pieces.js'
import { asRequestError } from './errors.js'
import type {
  CapabilityCall, CapabilityChunk, Clock, EngineChunk, EngineTask, ErrorBody, Invocations, RouteRequest,
  ServedFrame
} from '../../../kernel/index.js'
import type { Runners } from '../../runners/service.js'
import type { Piece, Reading, TextPiece, EndPiece } from './pieces.js'

/** The capability whose limit of calls at once every request of this plugin counts against. */
export const CHAT = 'chat@1.0.0'

/** Silence after which a stream shows that it is alive, ms. */
export const BEAT_MS = 10_000

/** What answering needs. */
export interface Answering {
  runners: Runners
  invocations: Invocations
  clock: Clock
  /** A new id of characters and digits. */
  newId: () => string
}

/** A request as a task of the engine. */
export interface Asked {
  modelId: string
  /** The task a model's card has to name. */
  capability: string
  task: EngineTask
  reading: Reading
}

/** What an answer says about itself. */
export interface Facts {
  /** The command id. */
  id: string
  model: string
  /** Unix seconds. */
  created: number
  /** Milliseconds since the request was taken, monotonic. */
  elapsedMs: () => number
  newId: () => string
}

/** Makes the values of an API's answer of its pieces. */
export interface Formatter {
  begin (promptTokens: number): object[]
  piece (piece: TextPiece | EndPiece): object[]
  end (totals: Totals): object[]
}

/** A server-sent event that has the name of its value's type. */
export const namedEvent = (value: object): string =>
  `event: ${(value as { type: string }).type}\ndata: ${JSON.stringify(value)}\n\n`

/** How values are written to the stream. */
export interface Framing {
  contentType: string
  /** What a stream opens with. */
  begin (commandId: string): string
  value (value: object): string
  end (totals: Totals): string
  /** Shows that the stream is alive. */
  beat: string
  failed (error: ErrorBody): string
}

/** How an API answers: with a stream, or whole. */
export interface AnswerFormat {
  framing: Framing
  formatter: (facts: Facts) => Formatter
  whole: (answer: Collector, facts: Facts) => object
}

const factsOf = ({ clock, newId }: Answering, { commandId }: CapabilityCall, { modelId }: Asked): Facts => {
  const startedMs = clock.mono()
  return {
    id: commandId, model: modelId, created: Math.floor(clock.now() / 1000), newId,
    elapsedMs: () => clock.mono() - startedMs
  }
}

/** The pieces of an answer. Throws what `runTask` throws; refusals name the fields of the request. */
async function * pieces (
  parts: Answering, runners: Runners, asked: Asked, call: CapabilityCall
): AsyncGenerator<Piece> {
  const { modelId, capability, task, reading } = asked
  try {
    const chunks = runTask(runners, { modelId, capability, task }, call)
    yield * piecesOf(chunks, reading, () => `call_${parts.newId()}`)
  } catch (error) {
    throw asRequestError(error)
  }
}

/** The values of an answer in an API's format, as a capability streams them. */
export async function * formatted (
  parts: Answering, asked: Asked, call: CapabilityCall, formatterOf: (facts: Facts) => Formatter
): AsyncGenerator<object> {
  const formatter = formatterOf(factsOf(parts, call, asked))
  const totals = new Totals()
  for await (const piece of pieces(parts, parts.runners, asked, call)) {
    totals.add(piece)
    yield * piece.kind === 'start' ? formatter.begin(piece.promptTokens) : formatter.piece(piece)
  }
  yield * formatter.end(totals)
}

/** Texts of a stream, after those it opens with. */
async function * texts (
  parts: Answering, asked: Asked, call: CapabilityCall, { framing, formatter: formatterOf }: AnswerFormat
): AsyncGenerator<string> {
  const formatter = formatterOf(factsOf(parts, call, asked))
  const totals = new Totals()
  const written = (values: object[]): string => values.map((value) => framing.value(value)).join('')
  for await (const piece of pieces(parts, parts.runners, asked, call)) {
    totals.add(piece)
    const values = piece.kind === 'start' ? formatter.begin(piece.promptTokens) : formatter.piece(piece)
    const text = written(values)
    if (text !== '') yield text
  }
  yield written(formatter.end(totals)) + framing.end(totals)
}

/** Answers a request in an API's format, as a stream or whole. */
export async function answer (
  parts: Answering, request: RouteRequest, asked: Asked, stream: boolean, format: AnswerFormat
): Promise<void> {
  await (stream ? answerStream : answerWhole)(parts, request, asked, format)
}

/**
 * Answers with a stream. What fails within a second is an ordinary error body. After that the stream is open
 * whether the engine has said anything or not, and a failure is one event before its end.
 */
async function answerStream (
  parts: Answering, request: RouteRequest, asked: Asked, format: AnswerFormat
): Promise<void> {
  const { framing } = format
  await parts.invocations.serve(request, {
    as: CHAT,
    contentType: framing.contentType,
    frame: (frame) => streamText(framing, frame, request.requestId),
    handler: (call) => beats(texts(parts, asked, call, format), parts.clock, framing.beat)
  })
}

async function * beats (
  source: AsyncIterable<string>, clock: Clock, beat: string
): AsyncGenerator<CapabilityChunk<{ text: string }>> {
  for await (const text of beating(source, clock, BEAT_MS)) yield { payload: { text: text ?? beat } }
}

function streamText (framing: Framing, { kind, payload, error }: ServedFrame, id: string): string | null {
  if (kind === 'started') return framing.begin((payload as { command_id: string }).command_id) || null
  if (kind === 'chunk') return (payload as { text: string }).text || null
  if (kind !== 'failed' && kind !== 'cancelled') return null
  return framing.failed(error as ErrorBody | null ?? cancelled(id))
}

const cancelled = (requestId: string): ErrorBody => {
  const message = 'The call was cancelled.'
  const error = {
    message, type: 'Client Closed Request', param: null, code: 499, reason: 'cancelled', retryable: false,
    requestId, details: {}
  }
  return { error, detail: message }
}

/** Answers whole, once the outcome is known. A lost instance is tried again where the client wants that. */
async function answerWhole (
  parts: Answering, request: RouteRequest, asked: Asked, { whole }: AnswerFormat
): Promise<void> {
  await answerJson(parts, request, async (call) => {
    const collected = new Collector()
    const facts = factsOf(parts, call, asked)
    for await (const piece of pieces(parts, heldBack(parts.runners), asked, call)) collected.add(piece)
    return whole(collected, facts)
  })
}

/** Answers with the value that `make` resolves with, in a place of the capability `as`. */
export async function answerJson (
  { invocations, clock }: Pick<Answering, 'invocations' | 'clock'>, request: RouteRequest,
  make: (call: CapabilityCall) => Promise<object>, as = CHAT
): Promise<void> {
  await invocations.serve(request, {
    as,
    contentType: 'application/json; charset=utf-8',
    handler: (call) => jsonChunks(() => make(call), clock)
  })
}

/** Empty chunks while the value is made, which keep the call from its deadline; then the value. */
async function * jsonChunks (make: () => Promise<object>, clock: Clock): AsyncGenerator<CapabilityChunk> {
  for await (const made of beating(once(make), clock, BEAT_MS)) {
    if (made === null) yield { payload: {} }
    else yield { payload: {}, media: jsonMedia(made) }
  }
}

async function * once<T> (make: () => Promise<T>): AsyncGenerator<T> { yield await make() }

const jsonMedia = (value: object): NonNullable<CapabilityChunk['media']> => ({
  bytes: Buffer.from(JSON.stringify(value)), mediaType: 'application/json', codec: 'json',
  sampleRate: 0, channels: 0, timestampSeconds: 0, durationSeconds: 0
})

/** Hands an answer on only when it is complete, so that a second try does not show. */
export function heldBack (runners: Runners): Runners {
  return {
    route: async (query) => await runners.route(query),
    open: (route, task, signal) => atOnce(runners.open(route, task, signal)),
    card: (modelId) => runners.card(modelId),
    models: (task) => runners.models(task),
    reports: () => runners.reports()
  }
}

async function * atOnce (chunks: AsyncIterable<EngineChunk>): AsyncGenerator<EngineChunk> {
  const all: EngineChunk[] = []
  for await (const chunk of chunks) all.push(chunk)
  yield * all
}

/** What the source gives, and null after each `ms` of silence. Pulls one thing at a time. */
export async function * beating<T> (
  source: AsyncIterable<T>, clock: Clock, ms: number
): AsyncGenerator<T | null> {
  const iterator = source[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = iterator.next()
      next.catch(() => {})
      let step = await orSilence(next, clock, ms)
      for (; step === null; step = await orSilence(next, clock, ms)) yield null
      if (step.done === true) return
      yield step.value
    }
  } finally {
    await iterator.return?.()
  }
}

async function orSilence<T> (next: Promise<T>, clock: Clock, ms: number): Promise<T | null> {
  let stop = (): void => {}
  const silence = new Promise<null>((resolve) => { stop = clock.after(ms, () => { resolve(null) }) })
  return await Promise.race([next, silence]).finally(stop)
}
