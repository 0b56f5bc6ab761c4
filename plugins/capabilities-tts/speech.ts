import type {
  CapabilityCall, CapabilityChunk, EngineChunk, FromSchema, Invocations, RouteRequest, ServedFrame, SvcError
} from '../../kernel/index.js'
import { runTask } from '../runners/service.js'
import type { Runners } from '../runners/service.js'
import type { speechBody } from './declarations.js'

/** What the engine says about each chunk. */
type SpokenChunk = {
  model: string, format: 'mp3', chunk_index: number, sample_rate: number, is_partial: boolean
}

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  mp3: 'audio/mpeg', wav: 'audio/wav', pcm: 'audio/pcm'
}

/** Media type of an encoding the engine writes; undefined when it writes no such thing. */
function mediaTypeOf (encoding: string): string | undefined {
  return Object.hasOwn(MEDIA_TYPES, encoding) ? MEDIA_TYPES[encoding] : undefined
}

/** Speaks a text on whichever runner of the voice has the least to do. */
export async function * speak (
  runners: Runners, payload: Record<string, unknown> & { model: string }, call: CapabilityCall
): AsyncGenerator<CapabilityChunk<SpokenChunk>> {
  const request = { modelId: payload.model, capability: 'tts', task: { kind: 'tts', payload } }
  for await (const chunk of runTask(runners, request, call)) yield withMedia(chunk)
}

function withMedia (chunk: EngineChunk): CapabilityChunk<SpokenChunk> {
  const payload = chunk.payload as unknown as SpokenChunk
  if (chunk.media === undefined) return { payload }
  return {
    payload,
    media: {
      bytes: chunk.media,
      mediaType: mediaTypeOf(payload.format) ?? 'application/octet-stream',
      codec: payload.format,
      sampleRate: payload.sample_rate,
      channels: 1,
      timestampSeconds: chunk.timing?.timestampSeconds ?? 0,
      durationSeconds: chunk.timing?.durationSeconds ?? 0
    }
  }
}

type SpeechBody = FromSchema<typeof speechBody>

/** Names clients may use instead of a model's or a voice's own. */
interface Aliases {
  models: Readonly<Record<string, string>>
  voices: Readonly<Record<string, string>>
}

interface SpeechParts {
  runners: Runners
  invocations: Invocations
  aliases: Aliases
  error: (reason: 'format_unsupported', message: string, details: Record<string, unknown>) => SvcError
}

/** Fields that go to the engine as they are. */
const SAME = [
  'speed', 'streaming_interval', 'lang_code',
  'temperature', 'top_p', 'top_k', 'repetition_penalty', 'max_tokens', 'seed'
] as const

/** The name an alias stands for, or the name itself. */
export function renamed (aliases: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(aliases, name) ? aliases[name]! : name
}

/** OpenAI's body as a task of the engine. */
export function toTask (body: SpeechBody, aliases: Aliases): Record<string, unknown> & { model: string } {
  const voice = typeof body.voice === 'object' ? (body.voice as { id: string }).id : body.voice
  const task: Record<string, unknown> & { model: string } = {
    model: renamed(aliases.models, body.model), text: body.input, encoding: body.response_format ?? 'mp3'
  }
  if (voice !== undefined) task['voice'] = renamed(aliases.voices, voice)
  if (body.instructions !== undefined) task['instruct'] = body.instructions
  for (const key of SAME) if (body[key] !== undefined) task[key] = body[key]
  return task
}

/** A voice counts no tokens; OpenAI's clients expect the field. */
const NO_TOKENS = { input_tokens: 0, output_tokens: 0, total_tokens: 0 }

/** The events of `stream_format: sse`; null for what OpenAI's stream does not show. */
export function speechEvent (frame: ServedFrame): string | null {
  const event = (value: object): string => `data: ${JSON.stringify(value)}\n\n`
  switch (frame.kind) {
    case 'started':
      return ': keep-alive\n\n'
    case 'chunk':
      if (frame.media === null || frame.media.byteLength === 0) return null
      return event({ type: 'speech.audio.delta', audio: Buffer.from(frame.media).toString('base64') })
    case 'completed':
      return event({ type: 'speech.audio.done', usage: NO_TOKENS })
    case 'failed':
    case 'cancelled':
      return event(frame.error as object)
    default:
      return null
  }
}

type SpeechHandler = (request: RouteRequest<{ body: typeof speechBody }>) => Promise<void>

/** Handler of POST /v1/audio/speech. */
export function speechHandler (parts: SpeechParts): SpeechHandler {
  return async (request) => {
    const { body } = request
    const format = body.response_format ?? 'mp3'
    const contentType = mediaTypeOf(format)
    if (contentType === undefined) {
      const message = `There is no encoder for ${format} here; ask for mp3, wav or pcm.`
      throw parts.error('format_unsupported', message, { param: 'response_format' })
    }
    const events = body.stream_format === 'sse'
    await parts.invocations.serve(request, {
      as: 'tts@1.0.0',
      contentType: events ? 'text/event-stream' : contentType,
      ...(events ? { frame: speechEvent } : {}),
      handler: (call) => speak(parts.runners, toTask(body, parts.aliases), call)
    })
  }
}
