import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Button, Facts, Field, Section, Select, Trouble } from '../ui/parts.js'
import { bytes, span } from '../ui/text.js'
import { ModelChoice, WithModels, type Model } from './catalogue.js'
import { speechLines } from './request.js'
import { RequestButton, TraceLink } from './shown-request.js'
import { ApiError, chunksOf } from '../api.js'
import { call, state as cluster } from '../link.js'
import { canStream, playInto } from '../ui/player.js'
import { nodeName } from './answering.js'
import { peaksOf } from './peaks.js'
import type { RefObject } from 'preact'

const FIRST_TEXT =
  'Good morning. This voice is made on your own machine, and you hear it while it is still being made.'

export const Speech = ({ asked }: { asked: string | null }) => (
  <WithModels task="tts" asked={asked} none="There is no voice in this cluster.">
    {(models, id, choose) => (
      <Section title="Speech"><SpeechForm key={id} models={models} id={id} onModel={choose} /></Section>
    )}
  </WithModels>
)

interface FormProps { models: Model[], id: string, onModel: (id: string) => void }

function SpeechForm ({ models, id, onModel }: FormProps) {
  const model = models.find((one) => one.id === id)
  const [text, setText] = useState(FIRST_TEXT)
  const [voice, setVoice] = useState(model?.audio?.default_voice ?? '')
  const [speed, setSpeed] = useState(1)
  const voices = model?.audio?.voices ?? []
  const body = () => ({
    model: id, input: text, response_format: 'mp3',
    ...voice === '' ? {} : { voice }, ...speed === 1 ? {} : { speed }
  })
  return (
    <div class="form">
      <Field label="Text" rows={4} value={text} onText={setText} />
      <div class="choices-row">
        <ModelChoice models={models} value={id} onChoose={onModel} />
        {voices.length > 0 && (
          <div class="pick">
            <Select
              label="Voice" options={voices.map((one) => [one.id, one.name] as const)} value={voice}
              onText={setVoice}
            />
          </div>
        )}
        <div class="pick">
          <Field
            label={`Speed: ${speed.toFixed(2)} times`} type="range" min={0.5} max={2} step={0.05}
            value={String(speed)} onText={(text) => { setSpeed(Number(text)) }}
          />
        </div>
      </div>
      <Speaker body={body} ready={text.trim() !== ''} />
    </div>
  )
}

function Speaker ({ body, ready }: { body: () => Record<string, unknown>, ready: boolean }) {
  const audio = useRef<HTMLAudioElement>(null)
  const running = useRef<Speaking | null>(null)
  const [spoken, setSpoken] = useState<Spoken | null>(null)
  useEffect(() => () => { running.current?.close() }, [])
  const open = spoken?.state === 'open'
  const begin = (): void => {
    running.current?.close()
    running.current = new Speaking(body(), audio.current!, setSpoken)
  }
  return (
    <>
      <div class="inline">
        {open
          ? <Button kind="main" onClick={() => { running.current?.cancel() }}>Cancel</Button>
          : <Button kind="main" disabled={!ready} onClick={begin}>Speak</Button>}
        <RequestButton path="/v1/audio/speech" body={body} lines={speechLines} />
        {spoken !== null && !open && <TraceLink commandId={spoken.commandId} traced={spoken.traced} />}
      </div>
      <audio ref={audio} class="player" controls hidden={spoken === null} aria-label="The speech" />
      {spoken !== null && <Heard spoken={spoken} audio={audio} />}
    </>
  )
}

function Heard ({ spoken, audio }: { spoken: Spoken, audio: RefObject<HTMLAudioElement | null> }) {
  const { state, sound, error, received, firstMs, totalMs, url, streams, node } = spoken
  return (
    <>
      {error !== null && <Trouble error={error} />}
      {sound !== null && <Wave sound={sound} audio={audio} />}
      <Facts
        list={[
          ['First sound after', firstMs === null ? 'not heard yet' : span(firstMs)],
          ['Length', sound && `${span(sound.seconds * 1000)}${state === 'cancelled' ? ', cancelled' : ''}`],
          ['Made in', totalMs === null ? 'being made' : `${span(totalMs)} at ${node}`],
          ['Received', `${bytes(received)} of MP3`]
        ]}
      />
      {!streams && (
        <p class="hint">This browser cannot play MP3 while it comes: it plays when all is there.</p>
      )}
      {url !== null && (
        <div class="inline"><a class="button" href={url} download="speech.mp3">Download</a></div>
      )}
    </>
  )
}

interface Spoken {
  state: 'open' | 'done' | 'cancelled' | 'failed', sound: Sound | null, error: Error | null
  received: number
  /** Milliseconds from the click to the first sound, and to the last byte. */
  firstMs: number | null, totalMs: number | null
  commandId: string | null, traced: boolean, node: string
  url: string | null, streams: boolean
}

const TYPE = 'audio/mpeg'
/** One speech: requested, played while it arrives, and stored for the download. */
class Speaking {
  readonly #abort = new AbortController()
  readonly #audio: HTMLAudioElement
  readonly #tell: (spoken: Spoken) => void
  readonly #player
  readonly #begun = performance.now()
  readonly #chunks: Uint8Array<ArrayBuffer>[] = []
  #closed = false
  #spoken: Spoken = {
    state: 'open', sound: null, error: null, received: 0, firstMs: null, totalMs: null, commandId: null,
    traced: cluster.value.tracingEnabled, node: nodeName(), url: null, streams: canStream(TYPE)
  }

  constructor (body: object, audio: HTMLAudioElement, tell: (spoken: Spoken) => void) {
    this.#audio = audio
    this.#tell = tell
    this.#player = playInto(audio, TYPE)
    audio.addEventListener('playing', this.#heard)
    this.#set({})
    void this.#run(body)
  }

  /** Cancels the speech; the received part can still be played. */
  cancel (): void { this.#abort.abort() }

  async #run (body: object): Promise<void> {
    const { signal } = this.#abort
    try {
      const response = await call('/v1/audio/speech', { body, signal })
      this.#set({ commandId: response.headers.get('x-svc-command-id') })
      for await (const value of chunksOf(response)) {
        this.#chunks.push(value)
        this.#player.push(value)
        this.#set({ received: this.#spoken.received + value.length })
      }
      await this.#end({ state: 'done' })
    } catch (error) {
      await this.#end(signal.aborted ? { state: 'cancelled' } : { state: 'failed', error: wordsOf(error) })
    }
  }

  close (): void {
    this.cancel()
    this.#closed = true
    this.#audio.removeEventListener('playing', this.#heard)
    this.#player.close()
    if (this.#spoken.url !== null) URL.revokeObjectURL(this.#spoken.url)
  }

  async #end (outcome: Partial<Spoken>): Promise<void> {
    if (this.#closed) return
    const whole = new Blob(this.#chunks, { type: TYPE })
    this.#player.end(whole)
    const url = whole.size === 0 ? null : URL.createObjectURL(whole)
    this.#set({ ...outcome, totalMs: performance.now() - this.#begun, url })
    const sound = await decode(await whole.arrayBuffer())
    if (sound !== null) this.#set({ sound })
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

interface Sound { samples: Float32Array, seconds: number }

async function decode (bytes: ArrayBuffer): Promise<Sound | null> {
  try {
    // An OfflineAudioContext decodes without the user gesture that an AudioContext requires.
    const buffer = await new OfflineAudioContext(1, 1, 24_000).decodeAudioData(bytes)
    return { samples: buffer.getChannelData(0), seconds: buffer.duration }
  } catch { return null }
}

interface WaveProps { sound: Sound, audio: RefObject<HTMLAudioElement | null> }

const BARS = 240
const HEIGHT = 96

/** The waveform of a sound, with the playback position; a click moves it. */
function Wave ({ sound: { samples, seconds }, audio }: WaveProps) {
  const peaks = useMemo(() => peaksOf(samples, BARS), [samples])
  const [at, setAt] = useState(0)
  useEffect(() => {
    const element = audio.current!
    const update = (): void => { setAt(element.currentTime) }
    element.addEventListener('timeupdate', update)
    return () => { element.removeEventListener('timeupdate', update) }
  }, [])
  return (
    <svg
      class="wave" role="img" aria-label={`Waveform of ${span(seconds * 1000)} of sound`}
      viewBox={`0 0 ${BARS} ${HEIGHT}`} preserveAspectRatio="none"
      onClick={({ offsetX, currentTarget }) => {
        audio.current!.currentTime = offsetX / currentTarget.clientWidth * seconds
      }}
    >
      {peaks.map((peak, i) => {
        const height = Math.max(1, peak * HEIGHT)
        const played = i < at / seconds * BARS
        return (
          <rect
            key={i} x={i} y={(HEIGHT - height) / 2} width={0.7} height={height}
            class={played ? 'played' : undefined}
          />
        )
      })}
    </svg>
  )
}
