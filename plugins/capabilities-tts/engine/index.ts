/**
 * Engine `onnx-tts`: text to speech on onnxruntime. Runs inside a runner process; see family.ts for what a
 * family of voices provides and speech.ts for the way of an answer.
 */
import type {
  EngineChunk, EngineEnv, EngineModule, EngineSession, EngineTask, ModelSpec
} from '../../../kernel/api/engine.js'
import { EngineError } from '../../../kernel/api/engine.js'
import type { Family } from './family.js'
import { loadFamily } from './load.js'
import { DECODE_SECONDS, FIRST_SECONDS, Pace } from './pace.js'
import { readRequest, type SpeechTask } from './request.js'
import { speak } from './speech.js'

/** Spoken at warmup: a bare vowel run, which every IPA voice and every character voice has symbols for. */
const WARMUP = 'aaa eee ooo, aaa eee ooo.'
class SpeechSession implements EngineSession {
  private readonly family: Family
  private readonly spec: ModelSpec

  constructor (family: Family, spec: ModelSpec) {
    this.family = family
    this.spec = spec
  }

  async warmup (): Promise<void> {
    const { modelId } = this.spec.card
    this.family.warmFront()
    const request: SpeechTask['request'] = {
      text: WARMUP,
      voice: this.family.defaultVoice,
      language: 'ipa',
      speed: 1,
      temperature: 1,
      seed: undefined,
      maxSymbols: Infinity,
      pace: new Pace(FIRST_SECONDS, DECODE_SECONDS)
    }
    let bytes = 0
    const task: SpeechTask = { request, encoding: 'mp3', interval: 1 }
    // Once: more runs make neither the first sound nor the rest come sooner, and hold up the return of a
    // runner that was lost.
    for await (const chunk of speak(this.family, task, modelId, NEVER)) bytes += chunk.media?.length ?? 0
    if (bytes === 0) throw new EngineError('model_invalid', `${modelId} made no sound in its first run`)
  }

  async * run (task: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    const { kind, payload, trace } = task
    if (kind !== 'tts') throw new EngineError('invalid_payload', `engine onnx-tts serves tts, not ${kind}`)
    const { card } = this.spec
    yield * speak(this.family, readRequest(payload, this.family, card), card.modelId, signal, trace)
  }

  info (): Record<string, unknown> {
    const { sampleRate, voices, streams, seeded, limits } = this.family
    return {
      family: this.spec.card.family, sampleRate, voices, streams, seeded, limits,
      languages: this.family.languages()
    }
  }

  async close (): Promise<void> {
    await this.family.close()
  }
}

const NEVER = new AbortController().signal

/** A session on a loaded family. */
export function openSpeech (family: Family, spec: ModelSpec): EngineSession {
  return new SpeechSession(family, spec)
}

/** The engine. `load` reads the files that the card lists below `spec.directory`. */
const engine: EngineModule = {
  load: async (spec: ModelSpec, env: EngineEnv) => openSpeech(await loadFamily(spec, env), spec)
}

export default engine
