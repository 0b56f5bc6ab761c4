// Speech: a text is spoken, and heard while it is still being made.
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { linkTo } from '../route.js'
import { Button, Empty, Section, Trouble } from '../ui/parts.js'
import { bytes, span } from '../ui/text.js'
import { ModelChoice, useModels } from './catalogue.js'
import { speechLines } from './request.js'
import { RequestButton, TraceLink } from './shown-request.js'
import { speak } from './speaking.js'
import { Wave } from './wave.js'
import type { Model } from './catalogue.js'
import type { Spoken, Speaking } from './speaking.js'
import type { RefObject } from 'preact'

const FIRST_TEXT =
  'Good morning. This voice is made on your own machine, and you hear it while it is still being made.'

export function Speech ({ asked }: { asked: string | null }) {
  const { models, error } = useModels('tts')
  const [picked, setPicked] = useState<string | null>(null)
  useEffect(() => { setPicked(null) }, [asked])
  if (error !== null && models === null) return <Trouble error={error} />
  if (models === null) return <p class="waiting" role="status">Asking for the voices…</p>
  const first = models[0]
  if (first === undefined) {
    return <Empty title="There is no voice in this cluster."><a href={linkTo('models')}>Find one</a></Empty>
  }
  const id = picked ?? asked ?? first.id
  return (
    <Section title="Speech">
      <SpeechForm key={id} models={models} id={id} onModel={setPicked} />
    </Section>
  )
}

interface FormProps { models: Model[], id: string, onModel: (id: string) => void }

function SpeechForm ({ models, id, onModel }: FormProps) {
  const label = useId()
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
      <label for={`${label}-text`}>Text</label>
      <textarea
        id={`${label}-text`} rows={4} value={text}
        onInput={({ currentTarget }) => { setText(currentTarget.value) }}
      />
      <div class="choices-row">
        <ModelChoice models={models} value={id} onChoose={onModel} />
        {voices.length > 0 && (
          <div class="choice">
            <label for={`${label}-voice`}>Voice</label>
            <select
              id={`${label}-voice`} class="field" value={voice}
              onChange={({ currentTarget }) => { setVoice(currentTarget.value) }}
            >
              {voices.map((one) => <option key={one.id} value={one.id}>{one.name}</option>)}
            </select>
          </div>
        )}
        <div class="choice">
          <label for={`${label}-speed`}>Speed: {speed.toFixed(2)} times</label>
          <input
            id={`${label}-speed`} type="range" min={0.5} max={2} step={0.05} value={speed}
            onInput={({ currentTarget }) => { setSpeed(Number(currentTarget.value)) }}
          />
        </div>
      </div>
      <Speaker body={body} ready={text.trim() !== ''} />
    </div>
  )
}

/** Speaks, plays and shows what came. */
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
      <dl class="facts">
        <div><dt>First sound after</dt><dd>{firstMs === null ? 'not heard yet' : span(firstMs)}</dd></div>
        <div>
          <dt>Length</dt>
          <dd>
            {sound === null ? '' : span(sound.seconds * 1000)}
            {state === 'open' ? ' so far' : state === 'cancelled' ? ', cancelled' : ''}
          </dd>
        </div>
        <div><dt>Made in</dt><dd>{totalMs === null ? 'being made' : `${span(totalMs)} at ${node}`}</dd></div>
        <div><dt>Received</dt><dd>{bytes(received)} of MP3</dd></div>
      </dl>
      {!streams && (
        <p class="hint">This browser cannot play MP3 while it comes: it plays when all is there.</p>
      )}
      {url !== null && (
        <div class="inline"><a class="button" href={url} download="speech.mp3">Download</a></div>
      )}
    </>
  )
}
