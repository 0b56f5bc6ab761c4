import {
  beating, type CapabilityCall, type CapabilityChunk, type Clock, type EngineChunk, type FromSchema,
  type ModelCard, type RouteRequest
} from '../../kernel/index.js'
import type { Invocations, ServedFrame } from '../capabilities/service.js'
import { runTask, type Runners } from '../runners/service.js'
import { MEDIA_TYPES, type speechBody } from './declarations.js'
import { modelFor, voiceFor, type Aliases, type Speaker } from './openai-names.js'

type SpokenChunk = {
  model: string, format: 'mp3', chunk_index: number, sample_rate: number, is_partial: boolean
}

/** Speaks with the loudness of the payload, else of the model's card, else of the settings. */
export async function * speak (
  { runners, loudness }: Pick<SpeechParts, 'runners' | 'loudness'>,
  payload: Record<string, unknown> & { model: string }, call: CapabilityCall
): AsyncGenerator<CapabilityChunk<SpokenChunk>> {
  const modelId = payload.model
  const usual = runners.card(modelId)?.defaults?.['loudness'] ?? loudness
  const task = { kind: 'tts', payload: { loudness: usual, ...payload } }
  const warnings: unknown[] = []
  for await (const chunk of runTask(runners, { modelId, capability: 'tts', task }, call)) {
    if (chunk.payload['warnings'] === undefined) yield withMedia(chunk)
    else {
      warnings.push(...chunk.payload['warnings'] as string[])
      call.setHeader('x-svc-warning', warnings.join('; '))
    }
  }
}

function withMedia (chunk: EngineChunk): CapabilityChunk<SpokenChunk> {
  const payload = chunk.payload as unknown as SpokenChunk
  if (chunk.media === undefined) return { payload }
  return {
    payload,
    media: {
      bytes: chunk.media, mediaType: MEDIA_TYPES[payload.format] ?? 'application/octet-stream',
      codec: payload.format, sampleRate: payload.sample_rate, channels: 1,
      timestampSeconds: chunk.timing?.timestampSeconds ?? 0,
      durationSeconds: chunk.timing?.durationSeconds ?? 0
    }
  }
}

type SpeechBody = FromSchema<typeof speechBody>

interface SpeechParts {
  runners: Runners, invocations: Invocations, aliases: Aliases, clock: Clock
  /** RMS in dBFS; null for each voice's own. */
  loudness: number | null
}

/** Request fields that are passed to the engine unchanged. */
const SAME = [
  'speed', 'streaming_interval', 'lang_code', 'loudness',
  'temperature', 'top_p', 'top_k', 'repetition_penalty', 'max_tokens', 'seed'
] as const

/** Answers texts without words, such as an emoji: clients show an error for each, and stop reading aloud. */
const SILENCE_SECONDS = 0.2
const BEAT_MS = 10_000

export function toTask (
  body: SpeechBody, aliases: Aliases, speakers: readonly Speaker[]
): Record<string, unknown> & { model: string } {
  const asked = typeof body.voice === 'object' ? (body.voice as { id: string }).id : body.voice
  const model = modelFor(body.model, aliases, speakers)
  const card = cardOf(model, speakers)
  const voice = asked === undefined ? undefined : voiceFor(asked, aliases, card)
  const task: Record<string, unknown> & { model: string } = {
    model, text: body.input, encoding: body.response_format ?? 'mp3', silence: SILENCE_SECONDS
  }
  if (voice !== undefined) task['voice'] = voice
  if (body.instructions !== undefined) task['instruct'] = body.instructions
  for (const key of SAME) if (body[key] !== undefined) task[key] = body[key]
  return task
}

/** OpenAI clients expect token usage, although speech has no tokens. */
const NO_TOKENS = { input_tokens: 0, output_tokens: 0, total_tokens: 0 }

/** Converts a frame to an event of `stream_format: sse`; null for frames without an event. */
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

const cardOf = (model: string, speakers: readonly Speaker[]): ModelCard | undefined =>
  speakers.find(({ card }) => card.modelId === model)?.card

function ownVoice (model: string, speakers: readonly Speaker[]): string {
  const card = cardOf(model, speakers)
  return String(card?.defaults?.['voice'] ?? card?.voices[0]?.id ?? 'default')
}

type SpeechHandler = (request: RouteRequest<{ body: typeof speechBody }>) => Promise<void>

export function speechHandler (parts: SpeechParts): SpeechHandler {
  return async (request) => {
    const { body } = request
    const contentType = MEDIA_TYPES[body.response_format ?? 'mp3']!
    const events = body.stream_format === 'sse'
    const speakers = parts.runners.models('tts')
    const task = toTask(body, parts.aliases, speakers)
    await parts.invocations.serve(request, {
      as: 'tts@1.0.0',
      contentType: events ? 'text/event-stream' : contentType,
      ...(events ? { frame: speechEvent } : {}),
      handler: (call) => {
        call.setHeader('x-svc-model', task.model)
        call.setHeader('x-svc-voice', String(task['voice'] ?? ownVoice(task.model, speakers)))
        // A sentence may take minutes on a slow machine; empty chunks reset the call's deadline.
        return beating(speak(parts, task, call), parts.clock, BEAT_MS, { payload: {} })
      }
    })
  }
}
