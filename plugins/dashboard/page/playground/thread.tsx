import { Empty, useEnd } from '../ui/parts.js'
import { pathOf, siblingsOf } from './conversation.js'
import { MessageView } from './message.js'
import type { Lane, Message } from './conversation.js'
import type { Place } from './message.js'

export function Thread ({ lane, index }: { lane: Lane, index: number }) {
  const path = pathOf(lane)
  const last = path.at(-1)
  const open = last?.answer?.state === 'open'
  const end = useEnd([last])
  return (
    <div
      {...end} class="thread" role="log" aria-label={`Conversation with ${lane.model}`} aria-busy={open}
      tabIndex={0}
    >
      {path.length === 0 && (
        <Empty title="Nothing has been said yet.">
          <p>Ask something below. {lane.model === 'svc/guide' && 'It knows svc only: "What is a runner?"'}</p>
        </Empty>
      )}
      {path.map((message) => (
        <MessageView
          key={message.id} message={message} index={index} place={placeOf(lane, message)}
          last={message === last} open={open}
        />
      ))}
    </div>
  )
}

function placeOf (lane: Lane, message: Message): Place {
  const siblings = siblingsOf(lane, message)
  const at = siblings.indexOf(message)
  const [before = null, after = null] = [siblings[at - 1], siblings[at + 1]]
  return { at: at + 1, of: siblings.length, before, after }
}
