import { useRef, useState } from 'preact/hooks'
import { Button, Field } from '../ui/parts.js'
import { failed } from '../ui/toast.js'
import { ask, stop } from './answering.js'
import { openCalls, pathOf } from './conversation.js'
import { readImage } from './images.js'
import { answering, conversation } from './session.js'
import type { Model } from './catalogue.js'

const MOST_IMAGES = 4

/** Whether a key sends the message: Enter, except with Shift or while an input method is composing. */
const sends = (event: KeyboardEvent): boolean =>
  event.key === 'Enter' && !event.shiftKey && !event.isComposing

export function Composer ({ models }: { models: Model[] }) {
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
        <AttachButton blind={blind} onFiles={take} />
        {waits && <span class="hint">The model waits for the results of its calls.</span>}
      </div>
    </div>
  )
}

function Pictures ({ images, onChange }: { images: string[], onChange: (images: string[]) => void }) {
  if (images.length === 0) return null
  return (
    <ul class="pictures" aria-label="Images that go along">
      {images.map((url, i) => (
        <li key={i}>
          <img src={url} alt={`Image ${i + 1}`} />
          <Button
            kind="quiet" label={`Leave image ${i + 1} out`}
            onClick={() => { onChange(images.filter((_, n) => n !== i)) }}
          >
            ✕
          </Button>
        </li>
      ))}
    </ul>
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
