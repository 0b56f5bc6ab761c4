/** Runs a task and answers with it: as a stream, or whole. */
import { beating, EngineError, errorBody, kernelError } from '../../../kernel/index.js'
import { runTask } from '../../runners/service.js'
import { merged } from '../../runners/language/merged.js'
import { asRequestError } from './errors.js'
import { Collector, pieceReader, Totals } from './pieces.js'
import type {
  CapabilityCall, CapabilityChunk, EngineChunk, ErrorBody, RouteRequest
} from '../../../kernel/index.js'
import type { ServedFrame } from '../../capabilities/service.js'
import type { Runners, TaskRequest } from '../../runners/service.js'
import type { Piece, QueuePiece } from './pieces.js'
import type { AnswerFormat, ApiParts, TextRequest, AnswerMetadata, Framing } from './types.js'

/** The capability whose limit of calls at once every request for text counts against. */
const CHAT = 'chat@1.0.0'

/** Silence after which a stream shows that it is alive, ms. */
const BEAT_MS = 10_000

/** The same format; `keep` gets the whole answer once it is complete, of a stream too. */
export const withStorage = (format: AnswerFormat, keep: (whole: object) => void): AnswerFormat => ({
  ...format,
  formatter (facts) {
    const inner = format.formatter(facts)
    const all = new Collector()
    return {
      begin: (tokens) => inner.begin(tokens),
      piece (piece) {
        all.add(piece)
        return inner.piece(piece)
      },
      end (totals) {
        keep(format.whole(all, facts))
        return inner.end(totals)
      }
    }
  },
  whole (answer, facts) {
    const made = format.whole(answer, facts)
    keep(made)
    return made
  }
})

/** A server-sent event that has the name of its value's type. */
export const namedEvent = (value: object): string =>
  `event: ${(value as { type: string }).type}\ndata: ${JSON.stringify(value)}\n\n`

/** What `read` makes of the engine's chunks. Throws what `runTask` throws; refusals name request fields. */
export async function * runRequest<T> (
  runners: Pick<Runners, 'route' | 'open'>, request: TaskRequest, call: CapabilityCall,
  read: (chunk: EngineChunk) => T
): AsyncGenerator<T> {
  try {
    for await (const chunk of runTask(runners, request, call)) yield read(chunk)
  } catch (error) {
    throw asRequestError(error)
  }
}

/** Reasons of answers that another try may make valid. */
const INVALID = ['invalid_result', 'tool_call_unreadable']

/**
 * As `runRequest`, but yields nothing before all is there: until then a lost instance may be replaced, and an
 * answer that its schema does not allow is asked for once more.
 */
export async function * runWhole<T> (
  runners: Pick<Runners, 'route' | 'open'>, request: TaskRequest, call: CapabilityCall,
  read: (chunk: EngineChunk) => T
): AsyncGenerator<T> {
  const run = ({ payload, ...task }: TaskRequest['task'], more: object): AsyncGenerator<T> => runRequest({
    route: async (query) => await runners.route(query),
    open: (route, whole, signal) => atOnce(runners.open(route, whole, signal))
  }, { ...request, task: { ...task, payload: { ...payload, ...more } } }, call, read)
  try {
    yield * run(request.task, {})
  } catch (error) {
    if (!(error instanceof EngineError) || !INVALID.includes(error.reason)) throw error
    const { seed } = request.task.payload
    yield * run(request.task, typeof seed === 'number' ? { seed: seed + 1 } : {})
  }
}

async function * atOnce (chunks: AsyncIterable<EngineChunk>): AsyncGenerator<EngineChunk> {
  const all: EngineChunk[] = []
  for await (const chunk of chunks) all.push(chunk)
  yield * all
}

/**
 * The pieces of all answers, those of one chunk together. Several prompts are answered at once, as many as
 * together have no more answers than one may have; where one fails the others are ended.
 */
function piecesIn (
  parts: ApiParts, { more, shownAs: _, loadMs: __, ...asked }: TextRequest, call: CapabilityCall,
  run: typeof runRequest<Piece[]> = runRequest
): AsyncGenerator<Piece[]> {
  const { answers = 1, prompts = [] } = more ?? {}
  const warn = warner(call)
  const streams = (within: CapabilityCall) => [asked, ...prompts].map(({ task, reading }, prompt) =>
    run(parts.runners, { ...asked, task }, within, pieceReader(reading, () => `call_${parts.newId()}`, warn,
      { prompt, first: prompt * answers })))
  return prompts.length === 0
    ? streams(call)[0]!
    : together(streams, call, Math.max(1, Math.floor(parts.limits.max_answers / answers)))
}

async function * together<T> (
  streams: (call: CapabilityCall) => AsyncGenerator<T>[], call: CapabilityCall, most: number
): AsyncGenerator<T> {
  const over = new AbortController()
  try {
    yield * merged(streams({ ...call, signal: AbortSignal.any([call.signal, over.signal]) }), most)
  } finally {
    over.abort()
  }
}

const factsOf = (
  { clock, newId }: ApiParts, { commandId }: CapabilityCall, { modelId, shownAs, loadMs = 0 }: TextRequest
): AnswerMetadata => {
  const startedMs = clock.mono()
  return {
    id: commandId, model: shownAs ?? modelId, created: Math.floor(clock.now() / 1000), newId,
    loadMs, elapsedMs: () => loadMs + clock.mono() - startedMs
  }
}

/** Names in the head of the answer the parts of the request that the engine ignores. */
function warner (call: CapabilityCall): (texts: string[]) => void {
  const all = new Set<string>()
  return (texts) => {
    for (const text of texts) if (text !== '') all.add(text)
    if (all.size === 0) return
    call.setHeader('x-svc-warning', [...all].join('; ').replace(/[^\x20-\x7e]/g, '?').slice(0, 1024))
  }
}

/** Makes something of values; the last ones come with the totals, and none with a place in the queue. */
type Write<T> = (values: object[], more: { totals?: Totals, queue?: QueuePiece | undefined }) => T

/** The values of an answer in an API's format, each group passed through `made`. */
export async function * formatted<T> (
  parts: ApiParts, asked: TextRequest, call: CapabilityCall, { formatter: formatterOf }: AnswerFormat,
  made: Write<T>
): AsyncGenerator<T> {
  const formatter = formatterOf(factsOf(parts, call, asked))
  const totals = new Totals()
  let begun = false
  for await (const pieces of piecesIn(parts, asked, call)) {
    const values: object[] = []
    let queue: QueuePiece | undefined
    for (const piece of pieces) {
      totals.add(piece)
      if (piece.kind === 'queue') {
        queue = piece
        continue
      }
      if (piece.kind !== 'start') values.push(...formatter.piece(piece))
      else if (!begun) values.push(...formatter.begin(piece.promptTokens))
      begun = true
    }
    // With nothing to say yet, the stream opens while the model works on the prompt, not after that.
    yield made(values, { queue })
  }
  yield made(formatter.end(totals), { totals })
}

/** Answers a request for text in an API's format, as a stream or whole. */
export async function answer (
  parts: ApiParts, request: RouteRequest, asked: TextRequest, stream: boolean, format: AnswerFormat
): Promise<void> {
  if (stream) await answerStream(parts, request, asked, format)
  else await answerJson(parts, request, async (call) => await wholeAnswer(parts, asked, call, format))
}

async function wholeAnswer (
  parts: ApiParts, asked: TextRequest, call: CapabilityCall, format: AnswerFormat
): Promise<object> {
  const collected = new Collector()
  const facts = factsOf(parts, call, asked)
  for await (const pieces of piecesIn(parts, asked, call, runWhole)) {
    for (const piece of pieces) collected.add(piece)
  }
  return format.whole(collected, facts)
}

/**
 * Answers with a stream. What fails within a second is an ordinary error body. After that the stream is open
 * whether the engine has said anything or not, and a failure is one event before its end.
 */
async function answerStream (
  parts: ApiParts, request: RouteRequest, asked: TextRequest, format: AnswerFormat
): Promise<void> {
  const { framing } = format
  const written: Write<CapabilityChunk<string>> = (values, { totals, queue }) => {
    const text = queue === undefined ? values.map((value) => framing.value(value)).join('')
      : queueText(framing, queue)
    return { payload: totals === undefined ? text : text + framing.end(totals) }
  }
  await parts.invocations.serve(request, {
    as: CHAT,
    contentType: framing.contentType,
    frame: (frame) => frameText(framing, frame, request.requestId) || null,
    handler: (call) => beating(
      formatted(parts, asked, call, format, written), parts.clock, BEAT_MS, { payload: framing.beat })
  })
}

/** The place of a request that waits, as a comment where a stream can have one. */
const queueText = ({ contentType }: Framing, { place, slots }: QueuePiece): string =>
  contentType === 'text/event-stream' ? `: queue ${JSON.stringify({ place, slots })}\n\n` : ''

function frameText (framing: Framing, { kind, payload, error }: ServedFrame, requestId: string): string {
  switch (kind) {
    case 'started': return framing.begin((payload as { command_id: string }).command_id)
    case 'chunk': return payload as string
    case 'completed': return ''
    default: return framing.failed(error as ErrorBody | null ??
      errorBody(kernelError('cancelled'), requestId))
  }
}

/** Answers with the value that `make` resolves with; counts against the limit of the capability `as`. */
export async function answerJson (
  { invocations, clock }: ApiParts, request: RouteRequest, make: (call: CapabilityCall) => Promise<object>,
  as = CHAT
): Promise<void> {
  const once = async function * (call: CapabilityCall): AsyncGenerator<CapabilityChunk> {
    yield { payload: {}, media: jsonMedia(await make(call)) }
  }
  await invocations.serve(request, {
    as,
    contentType: 'application/json; charset=utf-8',
    // Empty chunks reset the deadline of the call until the value is there.
    handler: (call) => beating(once(call), clock, BEAT_MS, { payload: {} })
  })
}

const jsonMedia = (value: object): NonNullable<CapabilityChunk['media']> => ({
  bytes: Buffer.from(JSON.stringify(value)), mediaType: 'application/json', codec: 'json',
  sampleRate: 0, channels: 0, timestampSeconds: 0, durationSeconds: 0
})
