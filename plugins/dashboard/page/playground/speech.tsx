import { useEffect, useRef, useState } from 'preact/hooks'
import { Button, Facts, Field, Section, Select, Trouble } from '../ui/parts.js'
import { bytes, span } from '../ui/text.js'
import { ModelChoice, WithModels } from './catalogue.js'
import { speechLines } from './request.js'
import { RequestButton, TraceLink } from './shown-request.js'
import { speak } from './speaking.js'
import { Wave } from './wave.js'
import type { Model } from './catalogue.js'
import type { Spoken, Speaking } from './speaking.js'
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
    running.current = speak(body(), audio.current!, setSpoken)
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
          ['Length', (
            <>
              {sound !== null && span(sound.seconds * 1000)}
              {state === 'open' ? ' so far' : state === 'cancelled' && ', cancelled'}
            </>
          )],
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
