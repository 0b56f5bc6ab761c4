import type { CapabilityCall, CapabilityChunk, EngineChunk } from '../../kernel/index.js'
import { runTask } from '../runners/service.js'
import type { Runners } from '../runners/service.js'

/** What the engine says about each chunk. */
export type SpokenChunk = {
  model: string, format: 'mp3', chunk_index: number, sample_rate: number, is_partial: boolean
}

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  mp3: 'audio/mpeg', wav: 'audio/wav', pcm: 'audio/pcm'
}

/** Media type of an encoding the engine writes; undefined when it writes no such thing. */
export function mediaTypeOf (encoding: string): string | undefined {
  return Object.hasOwn(MEDIA_TYPES, encoding) ? MEDIA_TYPES[encoding] : undefined
}

/** A spoken text, made by whichever runner of the voice has the least to do. */
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
