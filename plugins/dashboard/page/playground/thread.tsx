import { memo } from 'preact/compat'
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import DOMPurify from 'dompurify'
import { Marked, type Token } from 'marked'
import { ApiError } from '../api.js'
import { useEnd } from '../ui/list.js'
import { Badge, Button, CopyButton, Empty, Field, Trouble } from '../ui/parts.js'
import { openCalls, pathOf, pathTo, siblingsOf } from './conversation.js'
import { again, answerCall, edit, stop } from './answering.js'
import { conversation, show } from './session.js'
import { status } from '../link.js'
import { joined, span } from '../ui/text.js'
import { chatBody, chatLines } from './request.js'
import { RequestButton, TraceLink } from './shown-request.js'
import { copyText } from '../ui/copy.js'
import { failed } from '../ui/toast.js'
import { orElse } from '../../../../kernel/api/schema.js'
import type { Answer, Lane, Message, ToolCall } from './conversation.js'

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
          key={message.id} message={message} index={index} open={open} {...placeOf(lane, message)}
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

/** A message's number among its alternative versions, and the versions before and after it. */
interface Place { at: number, of: number, before: Message | null, after: Message | null }

interface MessageProps extends Place { message: Message, index: number, open: boolean }

/** Memoised, so that a new token does not re-render every message in a long conversation. */
const MessageView = memo(({ message, index, open, ...place }: MessageProps) => {
  const { role } = message
  return (
    <article class={`message ${role}`} aria-label={WHO[role]}>
      {role === 'assistant'
        ? <AnswerView message={message} index={index} />
        : role === 'user'
          ? <Question message={message} index={index} open={open} />
          : <Result message={message} />}
      {place.of > 1 && <Branches index={index} open={open} {...place} />}
    </article>
  )
})

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
      <Pictures images={images} />
      <p class="said">{message.content}</p>
      <div class="inline">
        <Button kind="quiet" disabled={open} onClick={() => { setEdits(true) }}>Edit</Button>
      </div>
    </>
  )
}

interface PicturesProps { images: string[], onChange?: (images: string[]) => void }

/** The images of a message; with `onChange` they can be removed. */
export function Pictures ({ images, onChange }: PicturesProps) {
  if (images.length === 0) return null
  return (
    <ul class="pictures" aria-label="Images">
      {images.map((url, i) => (
        <li key={i}>
          <img src={url} alt={`Image ${i + 1}`} />
          {onChange && (
            <Button
              kind="quiet" label={`Leave image ${i + 1} out`}
              onClick={() => { onChange(images.filter((_, n) => n !== i)) }}
            >
              ✕
            </Button>
          )}
        </li>
      ))}
    </ul>
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

function Branches ({ index, open, at, of, before, after }: Omit<MessageProps, 'message'>) {
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

interface AnswerProps { message: Message, index: number }

function AnswerView ({ message, index }: AnswerProps) {
  const { content, answer } = message
  if (answer === undefined) return null
  const { model, state, reasoning, toolCalls } = answer
  return (
    <>
      <p class="hint">{model}</p>
      {reasoning !== '' && (
        <details class="reasoning" open={state === 'open' && content === ''}>
          <summary>Reasoning</summary>
          <Markdown text={reasoning} />
        </details>
      )}
      <Markdown text={content} />
      {toolCalls.map((one) => <Call key={one.id} call={one} index={index} />)}
      {state === 'open' && content === '' && reasoning === '' && toolCalls.length === 0 && (
        <p class="hint" role="status">
          {status.value === 'live' ? 'Waiting for the first words…' : 'Waiting for a node…'}
        </p>
      )}
      <Ending answer={answer} onAgain={() => { again(index, message) }} />
      <Foot message={message} answer={answer} index={index} />
    </>
  )
}

function Ending ({ answer, onAgain }: { answer: Answer, onAgain: () => void }) {
  const { state, note, remedy, finish } = answer
  if (state === 'done') {
    return finish === 'length'
      ? <p class="hint">It ends here because it is as long as it may be.</p>
      : null
  }
  if (state === 'open') return null
  if (state === 'stopped') return <p class="hint">{note}</p>
  const lost = state === 'lost'
  const why = `${note ?? ''}${lost ? ' What had come is kept; a new answer comes beside it.' : ''}`
  const error = new ApiError(why, { remedy })
  return <Trouble error={error} again={onAgain} action={lost ? 'Ask again' : 'Try again'} />
}

function figures ({ firstMs, perSecond, tokens, totalMs, node }: Answer): string {
  return joined([
    firstMs === null ? null : `first token after ${span(firstMs)}`,
    perSecond === null ? null : `${perSecond.toFixed(perSecond < 10 ? 1 : 0)} tokens/s`,
    tokens === null || tokens === 0 ? null : `${tokens} tokens`,
    totalMs === null ? null : `${span(totalMs)} in all`,
    node === '' ? null : `at ${node}`
  ])
}

function Foot ({ message, answer, index }: AnswerProps & { answer: Answer }) {
  const { state, commandId, traced, model, sent } = answer
  const body = () => chatBody(model, sent, pathTo(conversation.value.lanes[index]!, message.parent))
  return (
    <div class="answer-foot">
      <span class="hint figures-line">{figures(answer)}</span>
      <div class="inline">
        {state === 'open'
          ? <Button kind="quiet" label="Stop this answer" onClick={() => { stop(message.id) }}>Stop</Button>
          : (
              <>
                <CopyButton text={message.content} label="Copy the answer" />
                <Button kind="quiet" onClick={() => { again(index, message) }}>Another answer</Button>
              </>
            )}
        <RequestButton path="/v1/chat/completions" body={body} lines={chatLines} />
        {state !== 'open' && <TraceLink commandId={commandId} traced={traced} />}
      </div>
    </div>
  )
}

const pretty = (text: string): string => orElse(text, () => JSON.stringify(JSON.parse(text), null, 2))

/** A tool call from the model; the user supplies its result. */
function Call ({ call, index }: { call: ToolCall, index: number }) {
  const [text, setText] = useState('')
  const lane = conversation.value.lanes[index]!
  const path = pathOf(lane)
  const over = path.findLast(({ role }) => role === 'assistant')?.answer?.state !== 'open'
  const waits = over && openCalls(path).some((one) => one.id === call.id)
  return (
    <div class="call">
      <p><strong>Call of {call.name}</strong> <code class="hint">{call.id}</code></p>
      <pre tabIndex={0} aria-label={`Arguments of ${call.name}`}><code>{pretty(call.arguments)}</code></pre>
      {waits && (
        <div class="form">
          <Field label="Its result" rows={2} value={text} autofocus onText={setText} />
          <div class="inline">
            <Button kind="main" onClick={() => { answerCall(index, call.id, text) }}>Give this result</Button>
          </div>
        </div>
      )}
    </div>
  )
}

// A model's Markdown is untrusted: a fixed set of tags is allowed, and no resource is fetched.
const HARMLESS = /^<\/?(?:br|sub|sup|kbd)\s*\/?>$/i

const marked = new Marked({
  gfm: true, breaks: true,
  renderer: {
    heading ({ tokens }) { return `<p><strong>${this.parser.parseInline(tokens)}</strong></p>` },
    // A remote picture would reveal the user's address to its host, so it becomes a link.
    image ({ href, text }) { return `<a href="${escaped(href)}">${escaped(text === '' ? href : text)}</a>` },
    // Markup in an answer is shown as text, except for a few formatting tags.
    html ({ text }) { return HARMLESS.test(text.trim()) ? text : escaped(text) },
    checkbox ({ checked }) { return checked ? '[x] ' : '[ ] ' }
  }
})

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const purify = DOMPurify()
purify.addHook('afterSanitizeAttributes', (element) => {
  if (element.tagName !== 'A') return
  element.setAttribute('target', '_blank')
  element.setAttribute('rel', 'noopener noreferrer')
})

const ALLOWED = {
  ALLOWED_TAGS: [
    'p', 'br', 'hr', 'strong', 'em', 'b', 'i', 'del', 's', 'sub', 'sup', 'code', 'pre', 'blockquote', 'ul',
    'ol', 'li', 'a', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'kbd'
  ],
  ALLOWED_ATTR: ['href', 'title', 'start', 'align'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false
}

/** The HTML of one block without active content. */
function safe (block: Token): string { return purify.sanitize(marked.parser([block]), ALLOWED) }

const Block = memo(({ block }: { block: Token }) => {
  const ref = useRef<HTMLDivElement>(null)
  const html = useMemo(() => safe(block), [block.raw])
  useLayoutEffect(() => {
    for (const code of ref.current?.querySelectorAll('pre') ?? []) code.append(copyButton(code))
  }, [html])
  return <div ref={ref} dangerouslySetInnerHTML={{ __html: html }} />
}, (a, b) => a.block.raw === b.block.raw)

function copyButton (code: HTMLElement): HTMLButtonElement {
  const text = code.textContent
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'button quiet copy-code'
  button.textContent = 'Copy'
  button.addEventListener('click', () => {
    copyText(text).then(() => { button.textContent = 'Copied' }, failed)
  })
  return button
}

function Markdown ({ text }: { text: string }) {
  // While an answer grows, only its last block changes.
  const blocks = useMemo(
    () => marked.lexer(text).filter(({ type }) => type !== 'space' && type !== 'def'), [text])
  return <div class="markdown">{blocks.map((block, i) => <Block key={i} block={block} />)}</div>
}
