/** Cuts sound into windows of speech at its pauses, and leaves out silence. */
import { FRAME, Vad, framesIn, framesOf } from './vad.js'
import { RATE } from './mel.js'
import type { Whisper } from './model.js'

/** Sound of one decoding; `start` in seconds from the start of the input. */
export interface Window { samples: Float32Array, start: number }

/** Probability that starts speech, and below which it ends. */
const SPEECH = 0.5
const BELOW = 0.15
/** Longest window in frames; shorter ones cost less but lose context. */
const LONGEST = framesIn(28)
/** Silence that ends a window, sound kept on either side of speech, and speech that is worth decoding. */
const PAUSE = framesIn(2)
const MARGIN = framesIn(0.3)
const LEAST = framesIn(0.13)

/** Sound in frames, with the probability of speech of each. */
export class Sound {
  readonly #samples: Float32Array
  readonly #speech: boolean[] = []
  readonly #probabilities: number[] = []
  /** Number of the first frame. */
  #at = 0

  constructor (frames: number) { this.#samples = new Float32Array(frames * FRAME) }

  get frames (): number { return this.#speech.length }
  get start (): number { return this.#at * FRAME / RATE }
  get end (): number { return (this.#at + this.frames) * FRAME / RATE }
  get isSpeech (): boolean { return this.#speech.at(-1) === true }
  get speechFrames (): number { return this.#speech.filter(Boolean).length }
  /** Frames since the last speech; all if there was none. */
  get silence (): number { return this.frames - 1 - this.#speech.lastIndexOf(true) }
  /** Frames before the first speech; all if there is none. */
  get lead (): number { return this.#speech.includes(true) ? this.#speech.indexOf(true) : this.frames }

  add (frame: Float32Array, probability: number, threshold = SPEECH): void {
    this.#samples.set(frame, this.frames * FRAME)
    this.#speech.push(probability >= (this.isSpeech ? Math.max(0.01, threshold - BELOW) : threshold))
    this.#probabilities.push(probability)
  }

  /** Removes the first frames and returns their samples. */
  take (frames: number): Window {
    const window = { samples: this.#samples.slice(0, frames * FRAME), start: this.start }
    this.#samples.copyWithin(0, frames * FRAME, this.frames * FRAME)
    this.#speech.splice(0, frames)
    this.#probabilities.splice(0, frames)
    this.#at += frames
    return window
  }

  /** All sound so far, which stays. */
  all (): Window { return { samples: this.#samples.slice(0, this.frames * FRAME), start: this.start } }

  /** Where to cut the second half: in its longest pause, else where speech is least likely. */
  cut (): number {
    const from = Math.floor(this.frames / 2)
    let [best, length] = [0, 0]
    for (let i = from, run = 0; i < this.frames; i++) {
      run = this.#speech[i] === true ? 0 : run + 1
      if (run >= length && run > 0) [best, length] = [i - Math.floor(run / 2), run]
    }
    if (length > 0) return best + 1
    const later = this.#probabilities.slice(from)
    return from + later.indexOf(Math.min(...later)) + 1
  }
}

/** The windows of a recording; their samples end with its speech. */
export async function * windowsOf (
  model: Whisper, blocks: AsyncIterable<Float32Array>
): AsyncGenerator<Window> {
  const vad = new Vad(model)
  const sound = new Sound(LONGEST)
  const take = (frames: number): Window[] => {
    const isWorth = sound.speechFrames >= LEAST
    const window = sound.take(frames)
    return isWorth ? [window] : []
  }
  for await (const frames of framesOf(blocks)) {
    const probabilities = await vad.probabilities(frames)
    for (const [i, probability] of probabilities.entries()) {
      sound.add(frames.subarray(i * FRAME, (i + 1) * FRAME), probability)
      if (sound.lead > MARGIN) sound.take(sound.lead - MARGIN)
      if (sound.lead < sound.frames && sound.silence > PAUSE) yield * take(sound.frames - PAUSE + MARGIN)
      else if (sound.frames === LONGEST) yield * take(sound.cut())
    }
  }
  yield * take(Math.max(0, sound.frames - Math.max(0, sound.silence - MARGIN)))
}
