import type { FromSchema, Invocations, RouteRequest, ServedFrame, SvcError } from '../../kernel/index.js'
import type { Runners } from '../runners/service.js'
import { mediaTypeOf, speak } from './speak.js'
import type { speechBody } from './routes.js'

type SpeechBody = FromSchema<typeof speechBody>

/** Names clients may use instead of a model's or a voice's own. */
export interface Aliases { models: Readonly<Record<string, string>>, voices: Readonly<Record<string,
  string>> }

export interface SpeechParts {
  runners: Runners
  invocations: Invocations
  aliases: Aliases
  error: (reason: 'format_unsupported', message: string, details: Record<string, unknown>) => SvcError
}

/** Fields that go to the engine as they are. */
const SAME = ['speed', 'streaming_interval', 'lang_code', 'temperature', 'top_p', 'top_k',
  'repetition_penalty',
  'max_tokens', 'seed'] as const

/** OpenAI's body as a task of the engine. Pure. */
export function toTask (body: SpeechBody, aliases: Aliases): Record<string, unknown> & { model: string } {
  const voice = typeof body.voice === 'object' ? (body.voice as { id: string }).id : body.voice
  const task: Record<string, unknown> & { model: string } = {
    model: aliases.models[body.model] ?? body.model, text: body.input, encoding: body.response_format ?? 'mp3'
  }
  if (voice !== undefined) task['voice'] = aliases.voices[voice as string] ?? voice
  if (body.instructions !== undefined) task['instruct'] = body.instructions
  for (const key of SAME) if (body[key] !== undefined) task[key] = body[key]
  return task
}

/** The events of `stream_format: sse`; null for what OpenAI's stream does not show. Pure. */
export function speechEvent (frame: ServedFrame): string | null {
  const event = (value: object): string => `data: ${JSON.stringify(value)}\n\n`
  switch (frame.kind) {
    case 'chunk': return frame.media === null || frame.media.byteLength === 0 ? null
      : event({ type: 'speech.audio.delta', audio: Buffer.from(frame.media).toString('base64') })
    case 'completed': return event({ type: 'speech.audio.done',
      usage: { input_tokens: 0, output_tokens: 0, total_tokens: 0 } })
    case 'failed':
    case 'cancelled': return event(frame.error as object)
    default: return null
  }
}

/** Handler of POST /v1/audio/speech. */
export function speechHandler (parts: SpeechParts):
(request: RouteRequest<{ body: typeof speechBody }>) => Promise<void> {
  return async (request) => {
    const { body } = request
    const format = body.response_format ?? 'mp3'
    const contentType = mediaTypeOf(format)
    if (contentType === undefined) {
      throw parts.error('format_unsupported',
        `There is no encoder for ${format} here; ask for mp3, wav or pcm.`,
        { param: 'response_format' })
    }
    const events = body.stream_format === 'sse'
    await parts.invocations.serve(request as RouteRequest, {
      as: 'tts@1.0.0',
      contentType: events ? 'text/event-stream' : contentType,
      ...(events ? { frame: speechEvent } : {}),
      handler: (call) => speak(parts.runners, toTask(body, parts.aliases), call)
    })
  }
}
