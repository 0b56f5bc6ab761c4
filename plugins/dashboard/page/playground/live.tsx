// A spoken conversation over /v1/realtime: the microphone goes out, sound and captions come back.
import { useEffect, useRef, useState } from 'preact/hooks'
import { call, here } from '../link.js'
import { Button, Section, Trouble } from '../ui/parts.js'
import { ModelChoice, WithModels } from './catalogue.js'
import { closeMicrophone, Level, MicrophoneChoice, noMicrophone, openMicrophone } from './microphone.js'

/** Hz of the sound both ways, and samples per message. */
const RATE = 24_000
const BLOCK = 2048

export const Live = ({ asked }: { asked: string | null }) => (
  <WithModels task="chat" asked={asked} none="There is no chat model in this cluster.">
    {(models, id, choose) => (
      <Section title="Conversation">
        <div class="choices-row">
          <ModelChoice models={models} value={id} onChoose={choose} />
          <MicrophoneChoice />
        </div>
        <Conversation key={id} model={id} />
      </Section>
    )}
  </WithModels>
)

interface Caption { id: string, who: 'You' | 'svc', text: string }
/** Adds to the caption of an item, or replaces it if `whole`. */
type OnCaption = (id: string, who: Caption['who'], text: string, whole: boolean) => void

function Conversation ({ model }: { model: string }) {
  const [captions, setCaptions] = useState<Caption[]>([])
  const [error, setError] = useState<Error | null>(null)
  const [stream, setStream] = useState<MediaStream | null>(null)
  const running = useRef<Talk | null>(null)
  const why = noMicrophone()
  const end = (): void => {
    running.current?.close()
    running.current = null
    setStream(null)
  }
  useEffect(() => end, [])
  const caption: OnCaption = (id, who, text, whole) => {
    setCaptions((had) => had.some((one) => one.id === id)
      ? had.map((one) => one.id === id ? { ...one, text: whole ? text : one.text + text } : one)
      : [...had, { id, who, text }])
  }
  const begin = async (): Promise<void> => {
    setError(null)
    const opened = await openMicrophone()
    const fail = (problem: Error): void => { setError(problem); end() }
    running.current = new Talk(opened, caption, fail)
    setStream(opened)
    await running.current.open(model).catch(fail)
  }
  return (
    <>
      <div class="inline">
        {stream === null
          ? <Button kind="main" disabled={why !== null} onClick={begin}>Begin to talk</Button>
          : <Button kind="main" onClick={end}>End</Button>}
        {stream !== null && <Level stream={stream} />}
        {why !== null && <span class="hint">{why}</span>}
      </div>
      {error !== null && <Trouble error={error} />}
      <div role="log" aria-label="Captions">
        {captions.map(({ id, who, text }) => <p key={id}><strong>{who}:</strong> {text}</p>)}
      </div>
    </>
  )
}

interface ServerEvent {
  type: string, item_id?: string, delta?: string, transcript?: string, error?: { message: string }
  response?: { status: string, status_details?: { error?: { message?: string } } | null }
}

/** One connection, with its microphone and the sound that is still to be played. */
class Talk {
  readonly #context = new AudioContext({ sampleRate: RATE })
  readonly #stream: MediaStream
  readonly #caption: OnCaption
  readonly #fail: (error: Error) => void
  #socket: WebSocket | null = null
  #closed = false
  /** Pieces that play or wait, and when the last one ends on the context's clock. */
  readonly #pieces = new Set<AudioBufferSourceNode>()
  #endsAt = 0
  /** The item that is played, and when it began. */
  #item = { id: '', from: 0 }

  constructor (stream: MediaStream, caption: OnCaption, fail: (error: Error) => void) {
    this.#stream = stream
    this.#caption = caption
    this.#fail = fail
  }

  async open (model: string): Promise<void> {
    const session = { type: 'realtime', model, audio: { input: { transcription: { model: 'whisper-1' } } } }
    const made = await call('/v1/realtime/client_secrets', { body: { session } })
    const { value } = await made.json() as { value: string }
    if (this.#closed) return
    const url = `${here.value.origin.replace(/^http/, 'ws')}/v1/realtime?model=${encodeURIComponent(model)}`
    const socket = this.#socket = new WebSocket(url, ['realtime', `openai-insecure-api-key.${value}`])
    socket.onmessage = ({ data }) => { this.#take(JSON.parse(data as string) as ServerEvent) }
    socket.onclose = () => { if (!this.#closed) this.#fail(new Error('The connection has ended.')) }
    socket.onopen = () => { this.#record() }
  }

  close (): void {
    this.#closed = true
    this.#socket?.close()
    closeMicrophone(this.#stream)
    void this.#context.close()
  }

  #record (): void {
    // Deprecated, but every other recorder needs a separate module file.
    const recorder = this.#context.createScriptProcessor(BLOCK, 1, 1)
    recorder.onaudioprocess = ({ inputBuffer }) => {
      const samples = Int16Array.from(inputBuffer.getChannelData(0),
        (value) => Math.max(-1, Math.min(1, value)) * 32_767)
      const audio = btoa(String.fromCharCode(...new Uint8Array(samples.buffer)))
      this.#send({ type: 'input_audio_buffer.append', audio })
    }
    this.#context.createMediaStreamSource(this.#stream).connect(recorder)
    recorder.connect(this.#context.destination)
  }

  #send (event: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(event))
  }

  #take ({ type, item_id: id = '', delta = '', transcript = '', error, response }: ServerEvent): void {
    if (type === 'conversation.item.input_audio_transcription.completed') {
      this.#caption(id, 'You', transcript, true)
    }
    if (type === 'response.output_audio_transcript.delta') this.#caption(id, 'svc', delta, false)
    if (type === 'response.output_audio.delta') this.#play(id, delta)
    if (type === 'input_audio_buffer.speech_started') this.#interrupt()
    const failure = error ?? response?.status_details?.error
    if (failure?.message !== undefined) this.#fail(new Error(failure.message))
  }

  #play (id: string, base64: string): void {
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
    const samples = Float32Array.from(new Int16Array(bytes.buffer), (value) => value / 32_768)
    const buffer = this.#context.createBuffer(1, samples.length, RATE)
    buffer.copyToChannel(samples, 0)
    const piece = this.#context.createBufferSource()
    piece.buffer = buffer
    piece.connect(this.#context.destination)
    const at = Math.max(this.#context.currentTime, this.#endsAt)
    if (id !== this.#item.id) this.#item = { id, from: at }
    piece.start(at)
    this.#endsAt = at + buffer.duration
    this.#pieces.add(piece)
    piece.onended = () => { this.#pieces.delete(piece) }
  }

  /** Stops the answer, and sends the node the time up to which it was played. */
  #interrupt (): void {
    if (this.#pieces.size === 0) return
    for (const piece of this.#pieces) piece.stop()
    this.#endsAt = 0
    const audioEndMs = Math.max(0, Math.round((this.#context.currentTime - this.#item.from) * 1000))
    this.#send({
      type: 'conversation.item.truncate', item_id: this.#item.id, content_index: 0, audio_end_ms: audioEndMs
    })
  }
}
