/** Runs a task and answers with it: as a stream, or whole. */
import { runTask } from '../../runners/service.js'
import { beating, BEAT_MS } from './beat.js'
import { Collector, piecesOf, Totals } from './pieces.js'
import { inWordsOfRequest } from './refuse.js'
import type {
  CapabilityCall, CapabilityChunk, Clock, EngineChunk, EngineTask, ErrorBody, Invocations, RouteRequest,
  ServedFrame
} from '../../../kernel/index.js'
import type { Runners } from '../../runners/service.js'
import type { Piece, Reading, TextPiece, EndPiece } from './pieces.js'

/** The capability whose places at the table every request of this plugin takes. */
export const CHAT = 'chat@1.0.0'

/** What answering needs. */
export interface Answering {
  runners: Runners
  invocations: Invocations
  clock: Clock
  /** Letters and digits that were never used before. */
  newId: () => string
}

/** A request in the engine's words. */
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

/** Says pieces in the words of an API. */
export interface Shape {
  begin (promptTokens: number): object[]
  piece (piece: TextPiece | EndPiece): object[]
  end (totals: Totals): object[]
}

/** How the values of a shape are written. */
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

/** An API's way to answer with a stream. */
export interface StreamApi { framing: Framing, shape: (facts: Facts) => Shape }

/** An API's way to answer as a whole. */
export type WholeApi = (answer: Collector, facts: Facts) => object

const factsOf = ({ clock, newId }: Answering, { commandId }: CapabilityCall, { modelId }: Asked): Facts => {
  const startedMs = clock.mono()
  return {
    id: commandId, model: modelId, created: Math.floor(clock.now() / 1000), newId,
    elapsedMs: () => clock.mono() - startedMs
  }
}

/** The pieces of an answer. Throws what `runTask` throws, with refusals in the words of the request. */
async function * pieces (
  parts: Answering, runners: Runners, asked: Asked, call: CapabilityCall
): AsyncGenerator<Piece> {
  const { modelId, capability, task, reading } = asked
  try {
    const chunks = runTask(runners, { modelId, capability, task }, call)
    yield * piecesOf(chunks, reading, () => `call_${parts.newId()}`)
  } catch (error) {
    throw inWordsOfRequest(error)
  }
}

/** The values of an API's shape, as a capability streams them. */
export async function * shaped (
  parts: Answering, asked: Asked, call: CapabilityCall, shapeOf: (facts: Facts) => Shape
): AsyncGenerator<object> {
  const shape = shapeOf(factsOf(parts, call, asked))
  const totals = new Totals()
  for await (const piece of pieces(parts, parts.runners, asked, call)) {
    totals.add(piece)
    yield * piece.kind === 'start' ? shape.begin(piece.promptTokens) : shape.piece(piece)
  }
  yield * shape.end(totals)
}

/** Texts of a stream, after those it opens with. */
async function * texts (
  parts: Answering, asked: Asked, call: CapabilityCall, { framing, shape: shapeOf }: StreamApi
): AsyncGenerator<string> {
  const shape = shapeOf(factsOf(parts, call, asked))
  const totals = new Totals()
  const written = (values: object[]): string => values.map((value) => framing.value(value)).join('')
  for await (const piece of pieces(parts, parts.runners, asked, call)) {
    totals.add(piece)
    const text = written(piece.kind === 'start' ? shape.begin(piece.promptTokens) : shape.piece(piece))
    if (text !== '') yield text
  }
  yield written(shape.end(totals)) + framing.end(totals)
}

/**
 * Answers with a stream. What fails within a second is an ordinary error body. After that the stream is open
 * whether the engine has said anything or not, and a failure is one event before its end.
 */
export async function answerStream (
  parts: Answering, request: RouteRequest, asked: Asked, api: StreamApi
): Promise<void> {
  const { framing } = api
  await parts.invocations.serve(request, {
    as: CHAT,
    contentType: framing.contentType,
    frame: (frame) => streamText(framing, frame, request.requestId),
    handler: (call) => beats(texts(parts, asked, call, api), parts.clock, framing.beat)
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
export async function answerWhole (
  parts: Answering, request: RouteRequest, asked: Asked, api: WholeApi
): Promise<void> {
  await answerJson(parts, request, async (call) => {
    const answer = new Collector()
    const facts = factsOf(parts, call, asked)
    for await (const piece of pieces(parts, heldBack(parts.runners), asked, call)) answer.add(piece)
    return api(answer, facts)
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
