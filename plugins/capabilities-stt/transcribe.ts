import {
  badField, beating, kernelError, type CapabilityChunk, type Clock, type RouteRequest
} from '../../kernel/index.js'
import { languageName } from './language.js'
import { readForm, type Form } from './upload.js'
import type { Admission, Invocations, ServedFrame } from '../capabilities/service.js'
import type { Listening, SttEvent, SttPayload, SttSegment } from './service.js'

const BEAT_MS = 10_000
const FORMATS: Readonly<Record<string, string>> = {
  json: 'application/json', verbose_json: 'application/json', text: 'text/plain; charset=utf-8',
  srt: 'application/x-subrip; charset=utf-8', vtt: 'text/vtt; charset=utf-8'
}

type Asked = ReturnType<typeof readFields>

/** The request that a form's fields describe. Throws `invalid_request` naming the field. */
export function readFields (fields: Form['fields'], task: 'transcribe' | 'translate') {
  const last = (field: string): string | undefined => fields.get(field)?.at(-1)
  const list = (field: string, allowed: readonly string[]): readonly string[] => {
    const values = [...fields.get(`${field}[]`) ?? [], ...fields.get(field) ?? []]
    if (values.every((value) => allowed.includes(value))) return values
    throw badField(field, `must be of ${allowed.join(', ')}`)
  }
  const { model, prompt, response_format: format = 'json', temperature, stream = 'false', language } =
    Object.fromEntries(['model', 'prompt', 'response_format', 'temperature', 'stream', 'language']
      .map((field) => [field, last(field) || undefined]))
  if (model === undefined) throw badField('model', 'is required')
  if (!Object.hasOwn(FORMATS, format)) {
    throw badField('response_format', `must be one of ${Object.keys(FORMATS).join(', ')}`)
  }
  if (temperature !== undefined && !(Number(temperature) >= 0 && Number(temperature) <= 1)) {
    throw badField('temperature', 'must be a number from 0 to 1')
  }
  if (!/^(true|false|1|0)$/i.test(stream)) throw badField('stream', 'must be true or false')
  const streams = /^(true|1)$/i.test(stream)
  const times = list('timestamp_granularities', ['word', 'segment'])
  if (times.length > 0 && format !== 'verbose_json') {
    throw badField('timestamp_granularities', 'needs response_format verbose_json')
  }
  const logprobs = list('include', ['logprobs']).length > 0
  if (logprobs && format !== 'json') throw badField('include', 'needs response_format json')
  if (streams && format !== 'json' && format !== 'text') {
    throw badField('stream', 'needs response_format json or text')
  }
  const code = language?.trim().toLowerCase().split(/[-_]/)[0]
  const request: SttPayload & { model: string } = {
    model, format: 'file', task,
    ...code === undefined || task === 'translate' ? {} : { language: code },
    ...prompt === undefined ? {} : { prompt },
    ...temperature === undefined ? {} : { temperature: Number(temperature) },
    ...times.includes('word') ? { words: true } : {}, ...logprobs ? { logprobs } : {}
  }
  /** `times`: which times `verbose_json` has. */
  return { request, format, stream: streams, times: times.length > 0 ? times : ['segment'] }
}

const joined = (segments: readonly SttSegment[]): string => segments.map(({ text }) => text).join('').trim()
const logprobsOf = (segments: readonly SttSegment[]) => segments.flatMap(({ logprobs }) => logprobs ?? [])

/** The text of a recording; `duration` in seconds. */
export interface Transcript { language: string, duration: number, segments: SttSegment[] }

/** The answer in the requested format. */
export function answerOf (
  { language, duration, segments }: Transcript, { format, times, request }: Asked
): string {
  if (format === 'srt') return toSrt(segments)
  if (format === 'vtt') return toVtt(segments)
  const text = joined(segments)
  if (format === 'text') return `${text}\n`
  const usage = { type: 'duration', seconds: Math.ceil(duration) }
  if (format === 'json') {
    const logprobs = request.logprobs === true ? { logprobs: logprobsOf(segments) } : {}
    return JSON.stringify({ text, ...logprobs, usage })
  }
  return JSON.stringify({
    task: request.task, language: languageName(language), duration, text,
    ...times.includes('segment')
      ? { segments: segments.map(({ words: _w, logprobs: _l, ...segment }) => ({ ...segment, seek: 0 })) }
      : {},
    ...times.includes('word') ? { words: segments.flatMap(({ words }) => words ?? []) } : {},
    usage
  })
}

/** A frame as an event of `stream: true`; null if it has none. */
export function transcriptEvent (frame: ServedFrame): string | null {
  if (frame.kind === 'started') return ': keep-alive\n\n'
  if (frame.error !== null) return `data: ${JSON.stringify(frame.error)}\n\n`
  const { type } = (frame.payload ?? {}) as { type?: string }
  return type === undefined ? null : `data: ${JSON.stringify(frame.payload)}\n\n`
}

type Answer = AsyncGenerator<CapabilityChunk<Record<string, unknown>>>

/** The whole answer as one piece of media. */
async function * whole (events: AsyncIterable<SttEvent>, asked: Asked): Answer {
  const found: Transcript = { language: '', duration: 0, segments: [] }
  for await (const { event, ...fields } of events) {
    if (event === 'segment') found.segments.push(fields as SttSegment)
    if (event === 'done') Object.assign(found, fields)
  }
  const bytes = Buffer.from(answerOf(found, asked))
  const mediaType = FORMATS[asked.format]!
  const sound = { codec: '', sampleRate: 0, channels: 0, timestampSeconds: 0, durationSeconds: 0 }
  yield { payload: {}, media: { bytes, mediaType, ...sound } }
}

/** OpenAI's events: a delta for each segment, then the whole text. */
async function * pieces (events: AsyncIterable<SttEvent>, asked: Asked): Answer {
  const segments: SttSegment[] = []
  for await (const { event, ...fields } of events) {
    const segment = fields as SttSegment
    if (event === 'segment') {
      const delta = segments.length === 0 ? segment.text.trimStart() : segment.text
      segments.push(segment)
      const { logprobs } = segment
      const more = logprobs === undefined ? {} : { logprobs }
      yield { payload: { type: 'transcript.text.delta', delta, ...more } }
    }
    if (event !== 'done') continue
    const { duration } = fields as { duration: number }
    const logprobs = asked.request.logprobs === true ? { logprobs: logprobsOf(segments) } : {}
    const usage = { type: 'duration', seconds: Math.ceil(duration) }
    yield { payload: { type: 'transcript.text.done', text: joined(segments), ...logprobs, usage } }
  }
}

export interface TranscriptionParts {
  listening: Listening
  invocations: Invocations
  clock: Clock
  /** Admits uploads, so that few forms occupy memory and disk. */
  uploads: Admission
  /** Folder for a file that arrives before the fields of its form. */
  folder: string
  /** Largest file in bytes. */
  limit: number
}

/** Answers OpenAI's routes for speech to text. */
export function transcriptionHandler (
  parts: TranscriptionParts, task: 'transcribe' | 'translate'
): (request: RouteRequest) => Promise<void> {
  return async (request) => {
    const { upload } = request
    if (upload == null) {
      const remedy = 'Send multipart/form-data with the fields file and model.'
      throw kernelError('unsupported_media_type', 'The request has no recording.', { remedy })
    }
    const release = await parts.uploads.enter(request.caller.id, request.signal)
    let form: Form | undefined
    try {
      const { read, fields } = form = await readForm(upload, request.headers['content-type'] ?? '', parts)
      const asked = readFields(fields, task)
      const model = parts.listening.modelFor(asked.request.model)
      await parts.invocations.serve(request, {
        as: 'stt@1.0.0',
        contentType: asked.stream ? 'text/event-stream' : FORMATS[asked.format]!,
        ...asked.stream ? { frame: transcriptEvent } : {},
        handler: (call) => {
          call.setHeader('x-svc-model', model)
          const events = parts.listening.transcribe({ ...asked.request, model }, read, call)
          const answer = asked.stream ? pieces(events, asked) : whole(events, asked)
          // A recording may take minutes; empty chunks reset the call's deadline.
          return beating(answer, parts.clock, BEAT_MS, { payload: {} })
        }
      })
    } finally {
      await form?.close()
      release()
    }
  }
}

/** Times as `01:02:03.004`; SubRip writes a comma instead of the point. */
function clock (seconds: number, point: '.' | ','): string {
  const all = Math.max(0, Math.round(seconds * 1000))
  const two = (value: number): string => String(Math.floor(value)).padStart(2, '0')
  const ms = String(all % 1000).padStart(3, '0')
  return `${two(all / 3_600_000)}:${two(all / 60_000 % 60)}:${two(all / 1000 % 60)}${point}${ms}`
}

const cue = ({ start, end, text }: SttSegment, point: '.' | ','): string =>
  `${clock(start, point)} --> ${clock(end, point)}\n${text.trim().replace('-->', '->')}\n\n`

/** Subtitles in SubRip's format. */
export const toSrt = (segments: readonly SttSegment[]): string =>
  segments.map((segment, i) => `${i + 1}\n${cue(segment, ',')}`).join('')

/** Subtitles in WebVTT, by the W3C. */
export const toVtt = (segments: readonly SttSegment[]): string =>
  `WEBVTT\n\n${segments.map((segment) => cue(segment, '.')).join('')}`
