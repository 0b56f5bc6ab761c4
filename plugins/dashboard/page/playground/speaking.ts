// One speech: requested, played while it arrives, and stored for the download.
import { ApiError } from '../api.js'
import { call, state as cluster } from '../link.js'
import { canStream, playInto } from '../ui/player.js'
import { nodeName } from './answering.js'
import { decode } from './wave.js'
import type { Sound } from './wave.js'

export interface Spoken {
  state: 'open' | 'done' | 'cancelled' | 'failed'
  sound: Sound | null
  error: Error | null
  received: number
  /** Milliseconds from the click to the first sound, and to the last byte. */
  firstMs: number | null
  totalMs: number | null
  commandId: string | null
  traced: boolean
  node: string
  url: string | null
  streams: boolean
}

export interface Speaking {
  /** Cancels the speech; the received part can still be played. */
  cancel (): void
  close (): void
}

const TYPE = 'audio/mpeg'
/** Milliseconds between waveform updates while sound arrives. */
const LOOK_MS = 400

export function speak (
  body: Record<string, unknown>, audio: HTMLAudioElement, tell: (spoken: Spoken) => void
): Speaking {
  const controller = new AbortController()
  const speaking = new Speech(audio, tell)
  void speaking.run(body, controller.signal)
  return {
    cancel: () => { controller.abort() },
    close () {
      controller.abort()
      speaking.close()
    }
  }
}

class Speech {
  readonly #audio: HTMLAudioElement
  readonly #tell: (spoken: Spoken) => void
  readonly #player
  readonly #begun = performance.now()
  readonly #chunks: Uint8Array<ArrayBuffer>[] = []
  #closed = false
  #looks = false
  #spoken: Spoken = {
    state: 'open', sound: null, error: null, received: 0, firstMs: null, totalMs: null, commandId: null,
    traced: cluster.value.tracingEnabled, node: nodeName(), url: null, streams: canStream(TYPE)
  }

  constructor (audio: HTMLAudioElement, tell: (spoken: Spoken) => void) {
    this.#audio = audio
    this.#tell = tell
    this.#player = playInto(audio, TYPE)
    audio.addEventListener('playing', this.#heard)
    this.#set({})
  }

  async run (body: Record<string, unknown>, signal: AbortSignal): Promise<void> {
    try {
      const response = await call('/v1/audio/speech', { body, signal })
      this.#set({ commandId: response.headers.get('x-svc-command-id') })
      const reader = response.body!.getReader()
      for (;;) {
        const { done, value } = await reader.read()
        if (done) break
        this.#chunks.push(value)
        this.#player.push(value)
        this.#set({ received: this.#spoken.received + value.length })
        void this.#look()
      }
      await this.#end({ state: 'done' })
    } catch (error) {
      await this.#end(signal.aborted ? { state: 'cancelled' } : { state: 'failed', error: wordsOf(error) })
    }
  }

  close (): void {
    this.#closed = true
    this.#audio.removeEventListener('playing', this.#heard)
    this.#player.close()
    if (this.#spoken.url !== null) URL.revokeObjectURL(this.#spoken.url)
  }

  /** Redraws the waveform after `LOOK_MS` if sound is still arriving; at most one redraw is scheduled. */
  async #look (): Promise<void> {
    if (this.#looks) return
    this.#looks = true
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    if (this.#spoken.state === 'open') await this.#draw()
    this.#looks = false
  }

  async #draw (): Promise<void> {
    const sound = await decode(await this.#whole().arrayBuffer())
    if (sound !== null) this.#set({ sound })
  }

  #whole (): Blob { return new Blob(this.#chunks, { type: TYPE }) }

  async #end (outcome: Partial<Spoken>): Promise<void> {
    if (this.#closed) return
    const whole = this.#whole()
    this.#player.end(whole)
    const url = whole.size === 0 ? null : URL.createObjectURL(whole)
    this.#set({ ...outcome, totalMs: performance.now() - this.#begun, url })
    await this.#draw()
  }

  readonly #heard = (): void => {
    if (this.#spoken.firstMs === null) this.#set({ firstMs: performance.now() - this.#begun })
  }

  #set (more: Partial<Spoken>): void {
    if (this.#closed) return
    this.#spoken = { ...this.#spoken, ...more }
    this.#tell(this.#spoken)
  }
}

const wordsOf = (error: unknown): Error => error instanceof ApiError
  ? error
  : new Error('The node went away while it was speaking. What came before can be heard.')
