/** Engine `onnx-tts` on onnxruntime, in a runner process; see family.ts (voices) and speech.ts (answers). */
import {
  EngineError, type EngineEnv, type EngineModule, type EngineSession, type ModelSpec
} from '../../../kernel/api/engine.js'
import { DECODE_SECONDS, FIRST_PIECE_SECONDS, PieceLengths, type Family } from './family.js'
import { loadFamily } from './load.js'
import { LOUDNESS } from './loudness.js'
import { readRequest, type SpeechTask } from './request.js'
import { speak } from './speech.js'
import { warningsFor } from './warnings.js'

/** Text for the trial run: vowels, for which every IPA or character voice has symbols. */
const WARMUP = 'aaa eee ooo.'
const NEVER = new AbortController().signal

export function openSpeech (family: Family, { card }: ModelSpec): EngineSession {
  const { modelId } = card
  return {
    async warmup () {
      family.warmFront()
      const task: SpeechTask = {
        request: {
          text: WARMUP, voice: family.defaultVoice, language: 'ipa', speed: 1, temperature: 1,
          seed: undefined, maxSymbols: Infinity, pace: new PieceLengths(FIRST_PIECE_SECONDS, DECODE_SECONDS)
        },
        encoding: 'mp3',
        interval: 1,
        loudness: LOUDNESS
      }
      let bytes = 0
      try {
        // One trial run is enough; more would delay the start without making the first request faster.
        for await (const chunk of speak(family, task, modelId, NEVER)) bytes += chunk.media?.length ?? 0
      } catch (error) {
        if (error instanceof EngineError) throw error
        // Mismatched files cause this, e.g. a vocabulary with ids beyond the graph's embedding table.
        throw new EngineError('model_invalid', `${modelId} cannot run; its files do not match: ` +
          (error as Error).message.slice(0, 300))
      }
      if (bytes === 0) throw new EngineError('model_invalid', `${modelId} produced no audio in its first run`)
    },

    async * run ({ kind, payload, trace }, signal) {
      if (kind !== 'tts') throw new EngineError('invalid_payload', `engine onnx-tts serves tts, not ${kind}`)
      const task = readRequest(payload, family, card)
      const warnings = warningsFor(task.request)
      if (warnings.length > 0) yield { payload: { warnings } }
      try {
        yield * speak(family, task, modelId, signal, trace)
      } catch (error) {
        const { silence } = task
        if (silence === undefined || (error as EngineError).reason !== 'text_unspeakable') throw error
        yield { payload: { warnings: [`${silence} s of silence: ${(error as Error).message}`] } }
        yield * speak(silentFor(silence, family), { ...task, loudness: null }, modelId, signal, trace)
      }
    },

    info () {
      const { sampleRate, voices, streams, seeded, limits } = family
      return {
        family: card.family, sampleRate, voices, streams, seeded, limits, languages: family.languages()
      }
    },

    close: async () => { await family.close() }
  }
}

/** A voice that answers any text with silence. */
const silentFor = (seconds: number, family: Family): Family => ({
  ...family,
  prepare: (_text, request) => family.prepare('a', { ...request, language: 'ipa' }),
  async * synth () { yield new Float32Array(Math.round(seconds * family.sampleRate)) }
})

const engine: EngineModule = {
  load: async (spec: ModelSpec, env: EngineEnv) => openSpeech(await loadFamily(spec, env), spec)
}

export default engine
