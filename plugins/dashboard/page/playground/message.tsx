import { memo } from 'preact/compat'
import { useState } from 'preact/hooks'
import { Badge, Button, Field } from '../ui/parts.js'
import { edit } from './answering.js'
import { AnswerView } from './answer-view.js'
import { show } from './session.js'
import type { Message } from './conversation.js'

/** A message's number among its alternative versions, and the versions before and after it. */
export interface Place { at: number, of: number, before: Message | null, after: Message | null }

interface MessageProps { message: Message, index: number, place: Place, last: boolean, open: boolean }

/** Memoised, so that a new token does not re-render every message in a long conversation. */
export const MessageView = memo(({ message, index, place, last, open }: MessageProps) => {
  const { role } = message
  return (
    <article class={`message ${role}`} aria-label={WHO[role]}>
      {role === 'assistant'
        ? <AnswerView message={message} index={index} last={last} />
        : role === 'user'
          ? <Question message={message} index={index} open={open} />
          : <Result message={message} />}
      {place.of > 1 && <Branches index={index} place={place} open={open} />}
    </article>
  )
}, (a, b) => a.message === b.message && a.last === b.last && a.open === b.open && a.index === b.index &&
  a.place.of === b.place.of && a.place.before === b.place.before && a.place.after === b.place.after)

const WHO = { user: 'You', assistant: 'Answer', tool: 'Result of a call' }

function Result ({ message }: { message: Message }) {
  return (
    <>
      <p class="hint">Result of the call <code>{message.callId}</code></p>
      <p class="said">{message.content}</p>
    </>
  )
}

function Question ({ message, index, open }: { message: Message, index: number, open: boolean }) {
  const [edits, setEdits] = useState(false)
  const { images = [] } = message
  if (edits) return <Editor message={message} index={index} onDone={() => { setEdits(false) }} />
  return (
    <>
      {images.length > 0 && (
        <ul class="pictures" aria-label="Images">
          {images.map((url, i) => <li key={i}><img src={url} alt={`Image ${i + 1}`} /></li>)}
        </ul>
      )}
      <p class="said">{message.content}</p>
      <div class="inline">
        <Button kind="quiet" disabled={open} onClick={() => { setEdits(true) }}>Edit</Button>
      </div>
    </>
  )
}

function Editor ({ message, index, onDone }: { message: Message, index: number, onDone: () => void }) {
  const [text, setText] = useState(message.content)
  return (
    <div class="form">
      <Field label="The message anew" unseen rows={3} value={text} onText={setText} />
      <div class="inline">
        <Button
          kind="main" disabled={text.trim() === '' && message.images === undefined}
          onClick={() => {
            edit(index, message, text)
            onDone()
          }}
        >
          Ask this instead
        </Button>
        <Button kind="quiet" onClick={onDone}>Cancel</Button>
      </div>
    </div>
  )
}

function Branches ({ index, place, open }: Pick<MessageProps, 'index' | 'place' | 'open'>) {
  const { at, of, before, after } = place
  const step = (label: string, sign: string, to: Message | null) => (
    <Button
      kind="quiet" label={label} disabled={to === null || open}
      onClick={() => { if (to !== null) show(index, to) }}
    >
      {sign}
    </Button>
  )
  return (
    <div class="inline branches">
      {step('The version before', '‹', before)}
      <Badge>{at} of {of}</Badge>
      {step('The version after', '›', after)}
    </div>
  )
}
