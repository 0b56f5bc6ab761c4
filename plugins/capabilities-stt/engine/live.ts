/** Live sound: turns by voice activity, drafts of the open turn, and its final text. */
import { FRAME, Vad, framesIn, framesOf } from './vad.js'
import { Sound } from './windows.js'
import type { Whisper } from './model.js'
import type { SttRequest } from './request.js'
import { isPoor, type Segment, type Writer } from './text.js'

export type LiveEvent =
  | { event: 'speech_started' | 'speech_stopped', at: number }
  | { event: 'partial', text: string, start: number }
  | { event: 'segment', segment: Segment, final?: true }

/** Speech that starts a turn. */
const LEAST = 2
/** Longest sound that is decoded at once: a draft of more would come too late. */
const LONGEST = framesIn(15)
/** From this length on, finished segments of a draft become final. */
const SETTLED = framesIn(8)
/** New sound for a draft in seconds, and in multiples of the time that the last one took. */
const DRAFT_SECONDS = 1
const DRAFT_LOAD = 1.5

interface Tools { isAlone: () => boolean, now: () => number }

/** One stream of live sound. It writes drafts only while `isAlone()`; `now` gives monotonic seconds. */
export class Listener {
  readonly #model: Whisper
  readonly #writer: Writer
  readonly #request: SttRequest
  readonly #tools: Tools
  readonly #sound: Sound
  readonly #prefix: number
  #isTurn = false
  #turnStart = 0
  /** Final text of the open turn, and the end of the sound that the next draft waits for. */
  #settled = ''
  #draftAt = 0

  constructor (model: Whisper, writer: Writer, request: SttRequest, tools: Tools) {
    this.#model = model
    this.#writer = writer
    this.#request = request
    this.#tools = tools
    this.#prefix = framesIn(request.prefixSeconds)
    this.#sound = new Sound(LONGEST + this.#prefix + 1)
  }

  async * listen (blocks: AsyncIterable<Float32Array>): AsyncGenerator<LiveEvent> {
    const vad = new Vad(this.#model)
    for await (const frames of framesOf(blocks)) {
      for (const [i, probability] of (await vad.probabilities(frames)).entries()) {
        this.#sound.add(frames.subarray(i * FRAME, (i + 1) * FRAME), probability, this.#request.threshold)
        if (this.#isTurn) yield * this.#continue()
        else yield * this.#wait()
      }
      if (this.#isTurn && this.#isDraftDue()) yield * this.#draft()
    }
    if (this.#isTurn) yield * this.#stop()
  }

  * #wait (): Generator<LiveEvent> {
    const sound = this.#sound
    const isNoise = !sound.isSpeech && sound.speechFrames < LEAST
    const extra = (isNoise ? sound.frames : sound.lead) - this.#prefix
    if (extra > 0) sound.take(extra)
    if (sound.speechFrames < LEAST) return
    this.#isTurn = true
    this.#settled = ''
    this.#turnStart = sound.start
    this.#draftAt = sound.end + DRAFT_SECONDS
    yield { event: 'speech_started', at: sound.start }
  }

  async * #continue (): AsyncGenerator<LiveEvent> {
    if (this.#sound.silence > framesIn(this.#request.silenceSeconds)) yield * this.#stop()
    else if (this.#sound.frames >= LONGEST) {
      const [segments] = await this.#writer.write([this.#sound.take(this.#sound.cut())])
      yield * this.#settle(segments ?? [])
    }
  }

  * #settle (segments: readonly Segment[]): Generator<LiveEvent> {
    for (const segment of segments) {
      this.#settled += segment.text
      yield { event: 'segment', segment }
    }
  }

  async * #stop (): AsyncGenerator<LiveEvent> {
    const sound = this.#sound
    this.#isTurn = false
    yield { event: 'speech_stopped', at: sound.end }
    const window = sound.all()
    sound.take(Math.max(0, sound.frames - this.#prefix))
    const [segments = []] = await this.#writer.write([window])
    const empty: Segment = {
      start: window.start, end: sound.end, text: '', tokens: [], temperature: 0, avg_logprob: 0,
      compression_ratio: 0, no_speech_prob: 1
    }
    yield * this.#settle(segments.slice(0, -1))
    yield { event: 'segment', segment: segments.at(-1) ?? empty, final: true }
  }

  #isDraftDue (): boolean {
    const isAllowed = this.#request.partials && this.#tools.isAlone()
    return isAllowed && this.#sound.isSpeech && this.#sound.end >= this.#draftAt
  }

  async * #draft (): AsyncGenerator<LiveEvent> {
    const sound = this.#sound
    const before = this.#tools.now()
    const [segments = []] = await this.#writer.write([sound.all()], true)
    const seconds = this.#tools.now() - before
    this.#draftAt = sound.end + Math.max(DRAFT_SECONDS, DRAFT_LOAD * seconds)
    const text = this.#settled + segments.map((segment) => segment.text).join('')
    yield { event: 'partial', text: text.trim(), start: this.#turnStart }
    const last = segments.at(-1)
    if (sound.frames < SETTLED || segments.length < 2 || segments.some(isPoor)) return
    sound.take(Math.min(sound.frames - 1, framesIn(last!.start - sound.start)))
    yield * this.#settle(segments.slice(0, -1))
  }
}
