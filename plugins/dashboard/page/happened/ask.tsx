import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { serverEvents } from '../api.js'
import { call } from '../link.js'
import { linkTo } from '../route.js'
import { Badge, Empty, Field, Form, Section, Sentence } from '../ui/parts.js'
import { asked, placeOf, threadOf, withEvent, type Answer, type Evidence, type Turn } from './answer.js'

/** The conversation; module state, so that switching tabs does not end it. */
const turns = signal<readonly Turn[]>([])
const busy = signal(false)

const EXAMPLES = ['is everything fine', 'what happened in the last hour', 'what is running', 'who is master']

async function put (question: string): Promise<void> {
  if (busy.value || question.trim() === '') return
  const thread = threadOf(turns.value)
  const index = turns.value.length
  let turn = asked(question.trim())
  const show = (next: Turn): void => {
    turn = next
    turns.value = turns.value.map((one, at) => at === index ? next : one)
  }
  busy.value = true
  turns.value = [...turns.value, turn]
  try {
    const body = { question: turn.question, thread, stream: true }
    const response = await call('/v1/steward/ask', { body })
    for await (const event of serverEvents(response)) {
      if (event.kind === 'event') show(withEvent(turn, event.data))
    }
  } catch (error) {
    show({ ...turn, error: (error as Error).message })
  } finally { busy.value = false }
}

export function Ask () {
  const [text, setText] = useState('')
  const list = turns.value
  const send = (question: string): void => {
    setText('')
    void put(question)
  }
  return (
    <Section title="Ask the cluster">
      {list.length === 0 && (
        <Empty title="Ask in English what is wrong, why, and since when. It only looks, and changes nothing.">
          <div class="inline">
            {EXAMPLES.map((one) => (
              <button key={one} type="button" class="button" onClick={() => { send(one) }}>{one}</button>
            ))}
          </div>
        </Empty>
      )}
      <div class="turns" aria-live="polite" aria-busy={busy.value}>
        {list.map((turn, index) => <TurnView key={index} turn={turn} />)}
      </div>
      <Form class="inline" onSubmit={() => { send(text) }}>
        <Field
          label="Question" unseen class="question" maxLength={4000} placeholder="why does … not answer?"
          value={text} onText={setText}
        />
        <button type="submit" class="button main" disabled={busy.value || text.trim() === ''}>Ask</button>
        {list.length > 0 && !busy.value && (
          <button type="button" class="button quiet" onClick={() => { turns.value = [] }}>Begin anew</button>
        )}
      </Form>
    </Section>
  )
}

function TurnView ({ turn: { question, tools, text, answer, error } }: { turn: Turn }) {
  return (
    <article class="turn">
      <h3>{question}</h3>
      {tools.length > 0 && <p class="hint">Looked at: {tools.join(', ')}.</p>}
      {answer === null && text !== '' && <p class="said">{text}</p>}
      {answer !== null && <AnswerView answer={answer} text={text} />}
      {error !== null && <p class="problem" role="alert">{error}</p>}
    </article>
  )
}

const LEVELS = { fail: 'error', warn: 'warn', ok: 'ok', info: 'plain' } as const

function AnswerView ({ answer, text }: { answer: Answer, text: string }) {
  const { diagnosis, sure, facts, evidence, remedies, unknown, voice } = answer
  return (
    <>
      {voice === 'reader' ? <p><strong>{diagnosis}</strong></p> : <p class="said">{text}</p>}
      {!sure && <p class="hint">This is partly a guess, or not everything could be looked at.</p>}
      <ul class="rows" aria-label="What it stands on">
        {facts.map((fact, index) => (
          <li key={index} class="row">
            <Badge level={LEVELS[fact.level]}>{fact.level}</Badge>
            <div class="grow"><p>{fact.text}</p><Pieces list={fact.evidence} /></div>
          </li>
        ))}
      </ul>
      {facts.length === 0 && <Pieces list={evidence} />}
      {remedies.length > 0 && (
        <ul class="nexts" aria-label="What to do">
          {remedies.map((one) => <li key={one}><Sentence text={one} /></li>)}
        </ul>
      )}
      {unknown.map((one) => <p key={one} class="hint">Not known: {one}</p>)}
      {voice !== 'reader' && <p class="hint">Worded by {voice}.</p>}
    </>
  )
}

function Pieces ({ list }: { list: readonly Evidence[] }) {
  if (list.length === 0) return null
  return (
    <p class="hint pieces">
      {list.map((one, index) => {
        const { words, parts, query } = placeOf(one)
        if (parts === null) return <code key={index}>{words}</code>
        const [page = 'cluster', ...rest] = parts
        const tail = query === undefined ? '' : `?${new URLSearchParams(query)}`
        return <a key={index} href={linkTo(page, ...rest) + tail}>{words}</a>
      })}
    </p>
  )
}
