// @ts-check
/** @import { EngineChunk, EngineEnv, EngineModule, EngineSession } from 'svc/plugin' */
/** @import { EngineTask, ModelSpec } from 'svc/plugin' */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { EngineError } from 'svc/plugin'

/** Samples of one chunk: 0.1 s. */
const CHUNK = 1600
const RATE = 16_000

/** @implements {EngineSession} */
class Beeper {
  /** @param {number} hertz @param {EngineEnv} env */
  constructor (hertz, env) {
    this.hertz = hertz
    this.env = env
  }

  /** A small inference like any other: the runner is ready when this has returned. */
  async warmup () {
    this.tone(0)
  }

  /**
   * @param {EngineTask} task @param {AbortSignal} signal
   * @returns {AsyncGenerator<EngineChunk>}
   */
  async * run (task, signal) {
    const { seconds } = task.payload
    if (typeof seconds !== 'number' || seconds > 60) {
      throw new EngineError('invalid_payload', `seconds is ${String(seconds)}, but at most 60 are possible`)
    }
    for (let chunk = 0; chunk * CHUNK < seconds * RATE; chunk++) {
      if (signal.aborted) return
      const media = await this.env.work('tone', CHUNK, () => this.tone(chunk * CHUNK))
      const timing = { timestampSeconds: chunk * CHUNK / RATE, durationSeconds: CHUNK / RATE }
      yield { payload: { chunk_index: chunk }, media, timing }
    }
  }

  info () {
    return { hertz: this.hertz }
  }

  /** @param {number} from */
  tone (from) {
    const samples = Int16Array.from({ length: CHUNK }, (_, i) =>
      8000 * Math.sin(2 * Math.PI * this.hertz * (from + i) / RATE))
    return new Uint8Array(samples.buffer)
  }
}

/** @type {EngineModule} */
export default {
  async load (/** @type {ModelSpec} */ spec, env) {
    const { hertz } = JSON.parse(await readFile(join(spec.directory, 'beep.json'), 'utf8'))
    if (!(hertz > 0)) throw new EngineError('model_invalid', `beep.json says ${hertz} Hz; it must be above 0`)
    env.progress(1, 1)
    return new Beeper(hertz, env)
  }
}
