import { useState } from 'preact/hooks'
import { status } from '../link.js'
import { Button, CopyButton, Field } from '../ui/parts.js'
import { joined, span } from '../ui/text.js'
import { again, answerCall, stop } from './answering.js'
import { openCalls, pathOf, pathTo } from './conversation.js'
import { Markdown } from './markdown.js'
import { chatBody, chatLines } from './request.js'
import { conversation } from './session.js'
import { RequestButton, TraceLink } from './shown-request.js'
import type { Answer, Message, ToolCall } from './conversation.js'

interface AnswerProps { message: Message, index: number, last: boolean }

export function AnswerView ({ message, index, last }: AnswerProps) {
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
      {toolCalls.map((one) => <Call key={one.id} call={one} index={index} last={last} />)}
      {state === 'open' && content === '' && reasoning === '' && toolCalls.length === 0 && (
        <p class="hint" role="status">
          {status.value === 'live' ? 'Waiting for the first words…' : 'Waiting for a node…'}
        </p>
      )}
      <Ending answer={answer} onAgain={() => { again(index, message) }} />
      <Foot message={message} answer={answer} index={index} last={last} />
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
  return (
    <div class="trouble" role="alert">
      <p>
        {note}
        {state === 'lost' && ' What had come is kept; a new answer comes beside it.'}
        {remedy !== null && <> {remedy}</>}
      </p>
      <Button onClick={onAgain}>{state === 'lost' ? 'Ask again' : 'Try again'}</Button>
    </div>
  )
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

function Foot ({ message, answer, index, last }: AnswerProps & { answer: Answer }) {
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
        {state !== 'open' && <TraceLink commandId={commandId} traced={traced} offer={last} />}
      </div>
    </div>
  )
}

const pretty = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

/** A tool call from the model; the user supplies its result. */
function Call ({ call, index, last }: { call: ToolCall, index: number, last: boolean }) {
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
          <Field label="Its result" rows={2} value={text} autofocus={last} onText={setText} />
          <div class="inline">
            <Button kind="main" onClick={() => { answerCall(index, call.id, text) }}>Give this result</Button>
          </div>
        </div>
      )}
    </div>
  )
}
