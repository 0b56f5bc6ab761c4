/** Silero VAD v6 (graph as in faster-whisper): the probability of speech in each 32 ms of sound. */
import { RATE } from './mel.js'
import { float32, floats, type Whisper } from './model.js'

/** Samples of a frame at 16 kHz, and how many before it the model sees too. */
export const FRAME = 512
const CONTEXT = 64
const STATE = 128

export const framesIn = (seconds: number): number => Math.round(seconds * RATE / FRAME)

export class Vad {
  readonly #model: Whisper
  #h: Float32Array = new Float32Array(STATE)
  #c: Float32Array = new Float32Array(STATE)
  #context: Float32Array = new Float32Array(CONTEXT)

  constructor (model: Whisper) { this.#model = model }

  /** The probability of speech in each of the frames that follow the earlier ones. */
  async probabilities (samples: Float32Array): Promise<Float32Array> {
    const frames = samples.length / FRAME
    const input = new Float32Array(frames * (CONTEXT + FRAME))
    for (let i = 0; i < frames; i++) {
      const own = samples.subarray(i * FRAME, (i + 1) * FRAME)
      input.set(this.#context, i * (CONTEXT + FRAME))
      input.set(own, i * (CONTEXT + FRAME) + CONTEXT)
      this.#context = own.slice(-CONTEXT)
    }
    const out = await this.#model.vad({
      input: float32(input, [frames, CONTEXT + FRAME]),
      h: float32(this.#h, [1, 1, STATE]), c: float32(this.#c, [1, 1, STATE])
    }, frames)
    this.#h = floats(out['hn'], 'hn')
    this.#c = floats(out['cn'], 'cn')
    return floats(out['speech_probs'], 'speech_probs')
  }
}

/** Collects blocks of any length into whole frames. */
export async function * framesOf (blocks: AsyncIterable<Float32Array>): AsyncGenerator<Float32Array> {
  let rest: Float32Array = new Float32Array()
  for await (const block of blocks) {
    const all = new Float32Array(rest.length + block.length)
    all.set(rest)
    all.set(block, rest.length)
    const whole = all.length - all.length % FRAME
    if (whole > 0) yield all.subarray(0, whole)
    rest = all.slice(whole)
  }
  if (rest.length === 0) return
  const last = new Float32Array(FRAME)
  last.set(rest)
  yield last
}
