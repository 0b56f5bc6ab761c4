import { defineService } from '../../kernel/index.js'
import type { CapabilityCall, CapabilityChunk, FromSchema } from '../../kernel/index.js'
import type { speechBody } from './declarations.js'

export interface Speech {
  /**
   * Speaks like POST /v1/audio/speech, with the same names of models and voices. `pcm` is 16-bit
   * little-endian mono at the voice's own rate, which each chunk names. Throws as that route does.
   */
  speak (body: FromSchema<typeof speechBody>, call: CapabilityCall): AsyncIterable<CapabilityChunk<unknown>>
}
export const SpeechService = defineService<Speech>('capabilities-tts')
