// First steps with a new node: its name, a store, the voice, the guide, a second machine, and client lines.
import { useState } from 'preact/hooks'
import { JoinDialog } from '../cluster/join.js'
import { ask, call, origin, state } from '../link.js'
import { linkTo } from '../route.js'
import { RestartNotice } from '../settings/restart.js'
import { nodesOf } from '../state.js'
import { Badge, Button, Section, Snippet, useLoaded } from '../ui/parts.js'
import { bytes } from '../ui/text.js'
import { clients } from './clients.js'
import type { ComponentChildren } from 'preact'

export function FirstPage () {
  return (
    <Section title="First steps">
      <ol class="steps">
        <NameStep />
        <VoiceStep />
        <GuideStep />
        <StoreStep />
        <MachineStep />
        <ClientStep />
      </ol>
    </Section>
  )
}

interface StepProps { title: string, done?: boolean, children: ComponentChildren }

function Step ({ title, done, children }: StepProps) {
  return (
    <li class="step">
      <h3>{title} {done === true && <Badge level="ok">done</Badge>}</h3>
      {children}
    </li>
  )
}

interface Config { revision: string }

/** Writes one setting of this node to svc.yaml. */
async function write (path: string, value: unknown): Promise<void> {
  const { revision } = await ask<Config>('/config')
  await ask('/config', { method: 'PUT', body: { revision, set: { [path]: value } } })
}

function NameStep () {
  const local = nodesOf(state.value).find((node) => node.local)
  const [name, setName] = useState<string | null>(null)
  const [written, setWritten] = useState(false)
  return (
    <Step title="Name this node">
      <div class="inline">
        <label class="visually-hidden" for="node-name">Name of this node</label>
        <input
          id="node-name" class="short" value={name ?? local?.name ?? ''}
          onInput={({ currentTarget }) => { setName(currentTarget.value) }}
        />
        <Button
          disabled={name === null || name.trim() === '' || name === local?.name}
          onClick={async () => {
            await write('name', name!.trim())
            setWritten(true)
          }}
        >
          Name it
        </Button>
      </div>
      {written && <RestartNotice />}
    </Step>
  )
}

function VoiceStep () {
  const [text, setText] = useState('Hello. This machine speaks.')
  const [sound, setSound] = useState<string | null>(null)
  const speak = async (): Promise<void> => {
    const answer = await call('/v1/audio/speech', { body: { model: 'svc/voice-en', input: text } })
    const blob = await answer.blob()
    if (sound !== null) URL.revokeObjectURL(sound)
    setSound(URL.createObjectURL(blob))
  }
  return (
    <Step title="Hear the voice" done={sound !== null}>
      <div class="inline">
        <label class="visually-hidden" for="first-text">What to say</label>
        <input
          id="first-text" class="short" value={text}
          onInput={({ currentTarget }) => { setText(currentTarget.value) }}
        />
        <Button kind="main" disabled={text.trim() === ''} onClick={speak}>Say it</Button>
      </div>
      {sound !== null && <audio controls autoplay src={sound} aria-label="What was said" />}
      <p class="hint">More of it in the <a href={linkTo('playground', 'speech')}>playground</a>.</p>
    </Step>
  )
}

interface Completion { choices: { message: { content: string } }[] }

function GuideStep () {
  const [question, setQuestion] = useState('What is a runner?')
  const [answer, setAnswer] = useState<string | null>(null)
  const put = async (): Promise<void> => {
    const body = { model: 'svc/guide', messages: [{ role: 'user', content: question }] }
    const { choices } = await ask<Completion>('/v1/chat/completions', { body })
    setAnswer(choices[0]?.message.content ?? '')
  }
  return (
    <Step title="Ask the guide" done={answer !== null}>
      <div class="inline">
        <label class="visually-hidden" for="first-question">A question about svc</label>
        <input
          id="first-question" class="short" value={question}
          onInput={({ currentTarget }) => { setQuestion(currentTarget.value) }}
        />
        <Button kind="main" disabled={question.trim() === ''} onClick={put}>Ask</Button>
      </div>
      {answer !== null && <p class="answer" aria-live="polite">{answer}</p>}
      <p class="hint">
        It is a small demo that knows svc only. <a href={linkTo('models')}>Fetch a larger model</a>.
      </p>
    </Step>
  )
}

interface StoreHealth { storePath: string | null, freeBytes: number }

function StoreStep () {
  const { value, error } = useLoaded(async (signal) =>
    await ask<StoreHealth>('/store/health', { signal }), [])
  return (
    <Step title="Choose where models are kept" done={value !== null}>
      {value !== null && (
        <p>
          The cluster has a store{value.storePath === null ? '' : ` at ${value.storePath}`},
          {' '}with {bytes(value.freeBytes)} free.
        </p>
      )}
      {error !== null && (
        <>
          <p>There is none yet. The first model that is fetched makes this node the store.</p>
          <p class="hint">For another folder, on the machine of the node, before it is restarted:</p>
          <Snippet label="Choose the folder" code="svc config set model_store.store_path /srv/models" />
        </>
      )}
    </Step>
  )
}

function MachineStep () {
  const [open, setOpen] = useState(false)
  const { knownNodes } = state.value.cluster
  return (
    <Step title="Connect a second machine" done={knownNodes > 1}>
      <div class="inline"><Button onClick={() => { setOpen(true) }}>Show me how</Button></div>
      {open && <JoinDialog onClose={() => { setOpen(false) }} />}
    </Step>
  )
}

function ClientStep () {
  const lines = clients(origin.value)
  const [name, setName] = useState(lines[0]!.name)
  const chosen = lines.find((one) => one.name === name) ?? lines[0]!
  return (
    <Step title="Use it from a client">
      <label class="visually-hidden" for="client">Client</label>
      <select
        id="client" class="field short" value={name}
        onChange={({ currentTarget }) => { setName(currentTarget.value) }}
      >
        {lines.map((one) => <option key={one.name}>{one.name}</option>)}
      </select>
      <Snippet label={`Lines for ${chosen.name}`} code={chosen.code} />
      {chosen.note !== null && <p class="hint">{chosen.note}</p>}
    </Step>
  )
}
