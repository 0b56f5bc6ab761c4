import { useState } from 'preact/hooks'
import { nodes } from '../known.js'
import { ask, call, origin, state } from '../link.js'
import { linkTo } from '../route.js'
import { JoinDialog, RestartNotice } from '../cluster/node-actions.js'
import { useAsk } from '../ui/loading.js'
import { Badge, Button, CodeChoice, Field, Opens, Section, Snippet } from '../ui/parts.js'
import { bytes, type Lines } from '../ui/text.js'
import { chatLines } from '../playground/request.js'
import type { ComponentChildren } from 'preact'
import type { FieldProps } from '../ui/parts.js'

export function FirstPage () {
  return (
    <Section title="First steps">
      <ol class="steps">
        <NameStep />
        <VoiceStep />
        <GuideStep />
        <StoreStep />
        <MachineStep />
        <Step title="Use it from a client"><CodeChoice label="Client" lines={clients(origin.value)} /></Step>
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

function Line ({ children, ...field }: FieldProps & { children: ComponentChildren }) {
  return <div class="inline"><Field unseen class="short" {...field} />{children}</div>
}

async function write (path: string, value: unknown): Promise<void> {
  const { revision } = await ask('GET /config')
  await ask('PUT /config', { body: { revision, set: { [path]: value } } })
}

function NameStep () {
  const local = nodes.value.find((node) => node.local)
  const [name, setName] = useState<string | null>(null)
  const [written, setWritten] = useState(false)
  return (
    <Step title="Name this node">
      <Line label="Name of this node" value={name ?? local?.name ?? ''} onText={setName}>
        <Button
          disabled={name === null || name.trim() === '' || name === local?.name}
          onClick={async () => {
            await write('name', name!.trim())
            setWritten(true)
          }}
        >
          Name it
        </Button>
      </Line>
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
      <Line label="What to say" value={text} onText={setText}>
        <Button kind="main" disabled={text.trim() === ''} onClick={speak}>Say it</Button>
      </Line>
      {sound !== null && <audio controls autoplay src={sound} aria-label="What was said" />}
      <p class="hint">More of it in the <a href={linkTo('playground', 'speech')}>playground</a>.</p>
    </Step>
  )
}

function GuideStep () {
  const [question, setQuestion] = useState('What is a runner?')
  const [answer, setAnswer] = useState<string | null>(null)
  const put = async (): Promise<void> => {
    const body = { model: 'svc/guide', messages: [{ role: 'user', content: question }] }
    const { choices } = await ask('POST /v1/chat/completions', { body })
    setAnswer(choices[0]?.message?.content ?? '')
  }
  return (
    <Step title="Ask the guide" done={answer !== null}>
      <Line label="A question about svc" value={question} onText={setQuestion}>
        <Button kind="main" disabled={question.trim() === ''} onClick={put}>Ask</Button>
      </Line>
      {answer !== null && <p class="answer" aria-live="polite">{answer}</p>}
      <p class="hint">
        It is a small demo that knows svc only. <a href={linkTo('models')}>Fetch a larger model</a>.
      </p>
    </Step>
  )
}

function StoreStep () {
  const { value, error } = useAsk('GET /store/health', [])
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
  return (
    <Step title="Connect a second machine" done={state.value.cluster.knownNodes > 1}>
      <div class="inline"><Opens dialog={<JoinDialog />}>Show me how</Opens></div>
    </Step>
  )
}

const KEY = 'From another machine the key is a token: svc token create NAME --authority read invoke'
const messages = [{ role: 'user', content: 'What is a runner?' }]
const body = { model: 'svc/guide', messages, stream: true }

const clients = (origin: string): Lines[] => [
  ...chatLines({ origin, path: '/v1/chat/completions', withToken: false, body }),
  {
    name: 'Anthropic (Python)', code: `from anthropic import Anthropic

client = Anthropic(base_url="${origin}", api_key="none")
answer = client.messages.create(model="svc/guide", max_tokens=100,
                                messages=[{"role": "user", "content": "What is a runner?"}])`
  },
  {
    name: 'Ollama clients', note: 'Name this as the address of Ollama, also in Open WebUI.',
    code: `OLLAMA_HOST=${origin}/ollama`
  }
].map((one) => ({ note: KEY, ...one }))
