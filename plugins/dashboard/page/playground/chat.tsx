import { useEffect, useRef, useState } from 'preact/hooks'
import { linkTo } from '../route.js'
import { Button, ConfirmButton, Field, Section, Select } from '../ui/parts.js'
import { ModelChoice, WithModels, type Model } from './catalogue.js'
import { Pictures, Thread } from './thread.js'
import {
  answering, begin, compare, conversation, list, load, notKept, open, remove, useModel, useSettings
} from './session.js'
import { TalkButton, transcribe } from './microphone.js'
import { failed } from '../ui/toast.js'
import { ask, stop } from './answering.js'
import { openCalls, pathOf, type Settings } from './conversation.js'
import { readTools } from './request.js'
import { fields, readFigure, withFigure, type Sampling, type SamplingName } from './sampling.js'

export const Chat = ({ asked }: { asked: string | null }) => (
  <WithModels task="chat" asked={asked} none="There is no chat model in this cluster.">
    {(models) => <Lanes models={models} asked={asked} />}
  </WithModels>
)

function Lanes ({ models, asked }: { models: Model[], asked: string | null }) {
  const [known, setKnown] = useState(false)
  useEffect(() => { void load().then(() => { setKnown(true) }) }, [])
  const preset = models[0]!.id
  useEffect(() => { if (known) takeModel(asked, preset) }, [known, asked, preset])
  if (!known) return null
  return (
    <Section title="Chat" aside={<Conversations />}>
      <Choices models={models} />
      <Options models={models} />
      {notKept.value !== null && <p class="problem">{notKept.value}</p>}
      <div class="lanes">
        {conversation.value.lanes.map((lane, index) => (
          <Thread key={`${conversation.value.id} ${index}`} lane={lane} index={index} />
        ))}
      </div>
      <Composer models={models} />
    </Section>
  )
}

/** Selects the model in the URL, in a new conversation if the current one has messages for another model. */
function takeModel (asked: string | null, preset: string): void {
  const { changedAt, lanes } = conversation.value
  const has = lanes[0]!.model
  if (asked !== null && asked !== has && !lanes.some(({ model }) => model === asked)) {
    if (changedAt === 0) useModel(0, asked)
    else begin(asked, conversation.value.settings)
  } else if (has === '') useModel(0, preset)
}

function Conversations () {
  const { id, changedAt } = conversation.value
  const options = list.value.map((one) => [one.id, one.title] as const)
  return (
    <>
      <Select
        label="Conversation" unseen class="conversations" value={id} onText={open}
        options={changedAt === 0 ? [[id, 'New conversation'], ...options] : options}
      />
      <Button onClick={() => { begin(undefined, conversation.value.settings) }}>New</Button>
      {changedAt > 0 && (
        <ConfirmButton
          words="Delete" kind="quiet" title="Delete this conversation?" action="Delete" danger
          onConfirm={remove}
        >
          <p>It is kept in this browser only, so nobody has another copy.</p>
        </ConfirmButton>
      )}
    </>
  )
}

function Choices ({ models }: { models: Model[] }) {
  const { lanes } = conversation.value
  const two = lanes.length > 1
  // Put the selected model into the URL, so that a reload or a bookmark selects it again.
  const choose = (index: number, model: string): void => {
    useModel(index, model)
    if (index === 0) history.replaceState(null, '', linkTo('playground', 'chat', model))
  }
  const other = models.find(({ id, ready }) => ready && id !== lanes[0]!.model)?.id ?? lanes[0]!.model
  return (
    <div class="choices-row">
      {lanes.map(({ model }, index) => (
        <ModelChoice
          key={index} models={models} value={model} label={two ? `Model ${index + 1}` : 'Model'}
          onChoose={(id) => { choose(index, id) }}
        />
      ))}
      <Button disabled={answering.value} onClick={() => { compare(two ? null : other) }}>
        {two ? 'Only the first model' : 'Compare with another'}
      </Button>
    </div>
  )
}

function Options ({ models }: { models: Model[] }) {
  const { settings, lanes, id } = conversation.value
  const chosen = models.filter((one) => lanes.some(({ model }) => model === one.id))
  const deaf = chosen.filter(({ resolved_capabilities: can }) => can['tools'] !== true).map((one) => one.id)
  const set = [
    settings.system === '' ? 0 : 1, Object.keys(settings.sampling).length, settings.tools.length
  ].reduce((a, b) => a + b)
  return (
    <details class="group">
      <summary><h3>Settings{set > 0 ? ` (${set} set)` : ''}</h3></summary>
      <SettingsFields key={id} settings={settings} onChange={useSettings} withoutTools={deaf} />
    </details>
  )
}

const MOST_IMAGES = 4

/** Whether a key sends the message: Enter, except with Shift or while an input method is composing. */
const sends = (event: KeyboardEvent): boolean =>
  event.key === 'Enter' && !event.shiftKey && !event.isComposing

function Composer ({ models }: { models: Model[] }) {
  const [text, setText] = useState('')
  const [images, setImages] = useState<string[]>([])
  const { lanes } = conversation.value
  const blind = lanes.find(({ model }) =>
    models.find((one) => one.id === model)?.resolved_capabilities['vision'] !== true)?.model
  const waits = lanes.some((lane) => openCalls(pathOf(lane)).length > 0)
  const said = text.trim() !== '' || images.length > 0
  const may = said && !answering.value && !waits && lanes[0]!.model !== ''
  const send = (): void => {
    if (!may) return
    ask(text, blind === undefined ? images : [])
    setText('')
    setImages([])
  }
  const take = async (files: Iterable<File>): Promise<void> => {
    const pictures = [...files].filter(({ type }) => type.startsWith('image/'))
    if (pictures.length === 0 || blind !== undefined) return
    const read = await Promise.all(pictures.map(readImage))
    setImages((had) => [...had, ...read].slice(0, MOST_IMAGES))
  }
  return (
    <div class="composer">
      {blind === undefined && <Pictures images={images} onChange={setImages} />}
      <Field
        label="Message" unseen rows={2} value={text} onText={setText}
        placeholder="Write a message: Enter sends, Shift and Enter make a line"
        onKeyDown={(event) => {
          if (!sends(event)) return
          event.preventDefault()
          send()
        }}
        onPaste={({ clipboardData }) => { void take(clipboardData?.files ?? []).catch(failed) }}
      />
      <div class="inline">
        {answering.value
          ? <Button kind="main" onClick={() => { stop() }}>Stop</Button>
          : <Button kind="main" disabled={!may} onClick={send}>Send</Button>}
        <TalkButton
          onSound={async (sound) => {
            const said = await transcribe(sound, { model: 'whisper-1', response_format: 'text' })
            setText((had) => `${had} ${said}`.trim())
          }}
        />
        <AttachButton blind={blind} onFiles={take} />
        {waits && <span class="hint">The model waits for the results of its calls.</span>}
      </div>
    </div>
  )
}

function AttachButton (
  { blind, onFiles }: { blind: string | undefined, onFiles: (files: File[]) => Promise<void> }
) {
  const ref = useRef<HTMLInputElement>(null)
  if (blind !== undefined) return <span class="hint">{blind} reads no images.</span>
  return (
    <>
      <input
        ref={ref} class="visually-hidden" type="file" accept="image/*" multiple tabIndex={-1}
        aria-label="Images for the message"
        onChange={({ currentTarget }) => {
          onFiles([...currentTarget.files ?? []]).catch(failed)
          currentTarget.value = ''
        }}
      />
      <Button onClick={() => { ref.current?.click() }}>Attach images</Button>
    </>
  )
}

// Prepares images for messages: small enough for a request, and in a format that the API accepts.

/** Image formats of the API; other formats are converted. */
const READ = ['image/png', 'image/jpeg', 'image/gif', 'image/bmp']
/** Limit in bytes per image: a request may have 4 MiB, and base64 makes an image a third larger. */
const MOST_BYTES = 700 * 1024
const LONGEST_SIDE = 1536

async function readImage (file: Blob): Promise<string> {
  if (READ.includes(file.type) && file.size <= MOST_BYTES) return await dataUrl(file)
  const bitmap = await createImageBitmap(file).catch(() => null)
  if (bitmap === null) throw new Error('This is not an image that the browser can read.')
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height))
  const canvas = document.createElement('canvas')
  canvas.width = Math.max(1, Math.round(bitmap.width * scale))
  canvas.height = Math.max(1, Math.round(bitmap.height * scale))
  canvas.getContext('2d')!.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  bitmap.close()
  return canvas.toDataURL('image/jpeg', 0.85)
}

function dataUrl (file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => { resolve(reader.result as string) }
    reader.onerror = () => { reject(reader.error ?? new Error('The image cannot be read.')) }
    reader.readAsDataURL(file)
  })
}

interface SettingsProps {
  settings: Settings
  onChange: (settings: Settings) => void
  /** The selected models without tool support. */
  withoutTools: string[]
}

function SettingsFields ({ settings, onChange, withoutTools }: SettingsProps) {
  return (
    <div class="form settings-fields">
      <Field
        label="System message" rows={2} value={settings.system}
        onText={(system) => { onChange({ ...settings, system }) }}
      />
      <SamplingFields
        sampling={settings.sampling} onChange={(sampling) => { onChange({ ...settings, sampling }) }}
      />
      <ToolsField settings={settings} onChange={onChange} withoutTools={withoutTools} />
    </div>
  )
}

interface SamplingProps { sampling: Sampling, onChange: (sampling: Sampling) => void }

function SamplingFields ({ sampling, onChange }: SamplingProps) {
  return (
    <fieldset class="figures">
      <legend>Sampling: what is left empty is the model's own</legend>
      {fields.map(({ name, title, hint }) => (
        <Figure
          key={name} name={name} title={title} hint={hint} value={sampling[name]}
          onChange={(value) => { onChange(withFigure(sampling, name, value)) }}
        />
      ))}
    </fieldset>
  )
}

interface FigureProps {
  name: SamplingName, title: string, hint: string, value: number | undefined
  onChange: (value: number | undefined) => void
}

function Figure ({ name, title, hint, value, onChange }: FigureProps) {
  const [text, setText] = useState(value === undefined ? '' : String(value))
  const read = readFigure(name, text)
  return (
    <div class="figure">
      <Field
        label={title} inputMode="decimal" value={text} hint={hint}
        problem={typeof read === 'string' ? read : null}
        onText={(typed) => {
          setText(typed)
          const next = readFigure(name, typed)
          if (typeof next !== 'string') onChange(next)
        }}
      />
    </div>
  )
}

const EXAMPLE = [{
  type: 'function',
  function: {
    name: 'weather', description: 'The weather at a place now.',
    parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] }
  }
}]
const written = (value: unknown): string => JSON.stringify(value, null, 2)

function ToolsField ({ settings, onChange, withoutTools }: SettingsProps) {
  const [text, setText] = useState(settings.tools.length === 0 ? '' : written(settings.tools))
  const read = readTools(text)
  const take = (value: string): void => {
    setText(value)
    const tools = readTools(value)
    if (typeof tools !== 'string') onChange({ ...settings, tools })
  }
  return (
    <>
      <Field
        label="Tools" class="mono" rows={4} spellcheck={false} value={text} onText={take}
        placeholder="A list of functions as JSON" problem={typeof read === 'string' ? read : null}
        hint={withoutTools.length > 0
          ? `${withoutTools.join(', ')} does not call tools.`
          : 'You answer the calls: the model gets what you write.'}
      />
      {text === '' && (
        <div class="inline">
          <Button kind="quiet" onClick={() => { take(written(EXAMPLE)) }}>Put in an example</Button>
        </div>
      )}
    </>
  )
}
