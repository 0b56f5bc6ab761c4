import { useLayoutEffect, useRef } from 'preact/hooks'
import { Empty } from '../ui/parts.js'
import { pathOf, siblingsOf } from './conversation.js'
import { MessageView } from './message.js'
import type { Lane, Message } from './conversation.js'
import type { Place } from './message.js'

/** Nearer to the end than this counts as being there, px. */
const NEAR = 40

export function Thread ({ lane, index }: { lane: Lane, index: number }) {
  const ref = useRef<HTMLDivElement>(null)
  const follows = useRef(true)
  const path = pathOf(lane)
  const last = path.at(-1)
  const open = last?.answer?.state === 'open'
  // Follows the text unless the reader has scrolled up.
  useLayoutEffect(() => {
    const element = ref.current
    if (element !== null && follows.current) element.scrollTop = element.scrollHeight
  }, [last])
  return (
    <div
      ref={ref} class="thread" role="log" aria-label={`Conversation with ${lane.model}`} aria-busy={open}
      tabIndex={0}
      onScroll={({ currentTarget: at }) => {
        follows.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR
      }}
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
