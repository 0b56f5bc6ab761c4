/** Runs a task and sends its answer, streamed or whole. */
import {
  beating, EngineError, errorBody, kernelError, type CapabilityCall, type CapabilityChunk, type EngineChunk,
  type ErrorBody, type RouteRequest
} from '../../../kernel/index.js'
import { runTask, type Runners, type TaskRequest } from '../../runners/service.js'
import { merged } from '../../runners/language/merged.js'
import { fieldsOf } from '../../runners/language/json.js'
import { asRequestError } from './errors.js'
import { Collector, pieceReader, Totals, type Piece, type QueuePiece } from './pieces.js'
import type { ServedFrame } from '../../capabilities/service.js'
import type { AnswerFormat, ApiParts, TextRequest, AnswerMetadata, Framing } from './types.js'

/** Every request for text counts against the concurrency limit of this capability. */
const CHAT = 'chat@1.0.0'

/** Milliseconds of silence after which a stream sends a keep-alive. */
const BEAT_MS = 10_000

/** Passes each complete answer, streamed or not, to `keep`. */
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

/** A server-sent event named after its value's `type`. */
export const namedEvent = (value: object): string =>
  `event: ${(value as { type: string }).type}\ndata: ${JSON.stringify(value)}\n\n`

/** Maps the engine's chunks with `read`. Throws like `runTask`; refusals name request fields. */
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

/** Error reasons for which a second attempt may succeed. */
const INVALID = ['invalid_result', 'tool_call_unreadable']

/**
 * Like `runRequest`, but buffers the whole answer first, so a lost instance can be replaced. Retries once
 * after an answer that does not match its schema.
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
 * The pieces of all answers, grouped by chunk. Prompts run in parallel, with at most `max_answers`
 * answers at a time; if one prompt fails, the others are aborted.
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
  const ended = new AbortController()
  try {
    yield * merged(streams({ ...call, signal: AbortSignal.any([call.signal, ended.signal]) }), most)
  } finally {
    ended.abort()
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

/** Lists request parts that the engine ignores in the header `x-svc-warning`. */
function warner (call: CapabilityCall): (texts: string[]) => void {
  const all = new Set<string>()
  return (texts) => {
    for (const text of texts) if (text !== '') all.add(text)
    if (all.size === 0) return
    call.setHeader('x-svc-warning', [...all].join('; ').replace(/[^\x20-\x7e]/g, '?').slice(0, 1024))
  }
}

/** Formats values as output. `totals` is set in the last call; a call with `queue` writes no values. */
type Write<T> = (values: object[], more: { totals?: Totals, queue?: QueuePiece | undefined }) => T

/** Formats an answer for an API; `made` converts each group of values. */
export async function * formatted<T> (
  parts: ApiParts, asked: TextRequest, call: CapabilityCall, { formatter: formatterOf }: AnswerFormat,
  made: Write<T>
): AsyncGenerator<T> {
  const formatter = formatterOf(factsOf(parts, call, asked))
  const totals = new Totals()
  let started = false
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
      else if (!started) values.push(...formatter.begin(piece.promptTokens))
      started = true
    }
    // Yields even without values, so that the stream opens while the model still reads the prompt.
    yield made(values, { queue })
  }
  yield made(formatter.end(totals), { totals })
}

/** The client's id of its conversation, which leads its requests to one instance. */
export function sessionOf ({ headers, body }: Pick<RouteRequest, 'headers' | 'body'>): string | undefined {
  const { prompt_cache_key: cache, conversation, user } = fieldsOf(body)
  return [headers['x-session-id'], cache, conversation, headers['x-openwebui-chat-id'], user]
    .find((id): id is string => typeof id === 'string' && id !== '')
}

export async function answer (
  parts: ApiParts, request: RouteRequest, task: TextRequest, stream: boolean, format: AnswerFormat
): Promise<void> {
  const asked = { ...task, session: sessionOf(request) }
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
 * Streams an answer. A failure within the first second is an ordinary error body. After that the stream is
 * open, and a failure is its last event.
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

/** The queue position or the progress of loading as an SSE comment; other formats have no comments. */
function queueText ({ contentType }: Framing, { place, slots, load }: QueuePiece): string {
  if (contentType !== 'text/event-stream') return ''
  if (load === undefined) return `: queue ${JSON.stringify({ place, slots })}\n\n`
  const { percent, expectedSeconds } = load
  const seconds = expectedSeconds === null ? '' : `, about ${expectedSeconds} s`
  return `: ${percent === null ? 'queued' : `loading ${percent} %`}${seconds}\n\n`
}

function frameText (framing: Framing, { kind, payload, error }: ServedFrame, requestId: string): string {
  switch (kind) {
    case 'started': return framing.begin((payload as { command_id: string }).command_id)
    case 'chunk': return payload as string
    case 'completed': return ''
    default: return framing.failed(error as ErrorBody | null ??
      errorBody(kernelError('cancelled'), requestId))
  }
}

/** Sends the value of `make` as JSON; counts against the concurrency limit of the capability `as`. */
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
    // Empty chunks reset the call's deadline until the value is ready.
    handler: (call) => beating(once(call), clock, BEAT_MS, { payload: {} })
  })
}

const jsonMedia = (value: object): NonNullable<CapabilityChunk['media']> => ({
  bytes: Buffer.from(JSON.stringify(value)), mediaType: 'application/json', codec: 'json',
  sampleRate: 0, channels: 0, timestampSeconds: 0, durationSeconds: 0
})
