// Lists every capability with its input and output, and generates a form to call it from its schema.
import { lazy } from 'preact/compat'
import { useState } from 'preact/hooks'
import { ApiError } from '../api.js'
import { caller, home } from '../link.js'
import { linkTo, route } from '../route.js'
import { useLoaded } from '../ui/loading.js'
import {
  Badge, Button, Copy, Empty, Facts, Field, Form, RowText, Section, Snippet, Trouble
} from '../ui/parts.js'
import { Rows } from '../ui/list.js'
import { list, nodeId, other, target, useOther, type Descriptor } from './target.js'
import { nameOf } from '../known.js'
import { NodeFilter } from '../happened/parts.js'
import { noAnswer, originOf } from './origins.js'

const CallView = lazy(async () => (await import('./call.js')).CallView)

export function DiscoveryPage () {
  const who = other.value === null ? caller.value : other.value.token
  const { value, error, again } = useLoaded(list, [target.value.origin, who, nodeId.value])
  const [name] = route.value.parts
  const unread = error instanceof ApiError && error.status === 0 && other.value !== null
  const chosen = value?.find((one) => keyOf(one) === name) ?? null
  return (
    <>
      <Where />
      {unread && <Trouble error={noAnswer(target.value.origin, home)} again={again} />}
      {error !== null && !unread && <Trouble error={error} again={again} />}
      {error === null && value !== null && (
        <Section title="Capabilities" aside={<Button onClick={again}>Read again</Button>}>
          {value.length === 0 && <Empty title="This node serves no capability. A plugin brings them." />}
          <Rows
            label="Capabilities" items={value} keyOf={keyOf}
            row={(one) => <Row one={one} shown={one === chosen} />}
          />
        </Section>
      )}
      {error === null && value !== null && name !== undefined && chosen === null && (
        <Empty title={`There is no capability ${name} here.`} />
      )}
      {error === null && chosen !== null && (
        <>
          <DescriptorView descriptor={chosen} />
          <CallView
            key={`${origin} ${keyOf(chosen)} ${chosen.node_id}`} descriptor={chosen} onStale={again}
          />
        </>
      )}
    </>
  )
}

const keyOf = ({ id, version }: Descriptor): string => `${id}@${version}`

function Row ({ one, shown }: { one: Descriptor, shown: boolean }) {
  return (
    <>
      <RowText hint={one.description}>
        <a href={linkTo('discovery', keyOf(one))} aria-current={shown ? 'true' : undefined}>{keyOf(one)}</a>
        <Badge>{MODES[one.io_mode]}</Badge>
      </RowText>
      <span>{one.title}</span>
    </>
  )
}

const MODES = {
  unary: 'one answer', server_streaming: 'streams its answer', client_streaming: 'takes a stream',
  bidirectional: 'streams both ways'
}

function DescriptorView ({ descriptor }: { descriptor: Descriptor }) {
  const { id, version, title, description, annotations, revision } = descriptor
  const { io_mode: mode, node_id: node } = descriptor
  const schemas = [
    ['What it takes', descriptor.input_schema], ['Each chunk it takes', descriptor.input_chunk_schema],
    ['What it answers', descriptor.output_schema],
    ['Each chunk of its answer', descriptor.output_chunk_schema]
  ] as const
  return (
    <Section title={title}>
      <p>{description}</p>
      <Facts
        list={[
          ['Id and version', <Copy key="id" text={`${id}@${version}`} />],
          ['Kind', <>{MODES[mode]} (<code>{mode}</code>)</>],
          ['Revision', <Copy key="revision" text={revision} />],
          ['Node', <Copy key="node" text={node} shown={nameOf(node)} />],
          ...Object.entries(annotations).map(([key, value]) =>
            [key, <Badge key={key}>{value}</Badge>] as const)
        ]}
      />
      {schemas.map(([words, schema]) => schema !== null && (
        <details key={words} class="group">
          <summary><h3>{words}</h3></summary>
          <Snippet label={`${words}: JSON Schema`} code={JSON.stringify(schema, null, 2)} />
        </details>
      ))}
    </Section>
  )
}

function Where () {
  const [types, setTypes] = useState(false)
  const away = other.value
  return (
    <Section
      title="Where"
      aside={away === null
        ? <Button onClick={() => { setTypes(!types) }}>{types ? 'This cluster' : 'Another origin'}</Button>
        : <Button onClick={() => { useOther(null) }}>Back to this cluster</Button>}
    >
      {away !== null && (
        <p>
          At <strong>{away.origin}</strong>,
          {away.token === null ? ' without a token.' : ' with the token you typed.'}
        </p>
      )}
      {away === null && (types
        ? <OriginForm onDone={() => { setTypes(false) }} />
        : <NodeFilter all="the one the page is at" value={nodeId.value} onChange={chooseNode} />)}
    </Section>
  )
}

const chooseNode = (id: string): void => { nodeId.value = id }

function OriginForm ({ onDone }: { onDone: () => void }) {
  const [address, setAddress] = useState('')
  const [token, setToken] = useState('')
  const [asked, setAsked] = useState(false)
  const read = originOf(address)
  const problem = asked && 'problem' in read ? read.problem : null
  return (
    <Form
      onSubmit={() => {
        setAsked(true)
        if ('problem' in read) return
        useOther({ origin: read.origin, token: token.trim() === '' ? null : token.trim() })
        onDone()
      }}
    >
      <Field
        label="Origin" spellcheck={false} placeholder="http://192.168.1.7:52415" value={address}
        problem={problem} onText={setAddress}
      />
      <Field
        label="Token, if it wants one" type="password" spellcheck={false} value={token} onText={setToken}
      />
      <p class="hint">
        It is not stored: it stays in the memory of this page, and goes to
        {' '}{'origin' in read ? read.origin : 'the origin above'} only.
      </p>
      <div class="inline"><button type="submit" class="button main">Look there</button></div>
    </Form>
  )
}
