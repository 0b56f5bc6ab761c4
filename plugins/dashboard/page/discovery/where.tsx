import { useState } from 'preact/hooks'
import { Filter } from '../happened/parts.js'
import { nodesNow } from '../known.js'
import { home } from '../link.js'
import { Button, Copy, Field, Section } from '../ui/parts.js'
import { noAnswer, originOf } from './origins.js'
import { nodeId, other, target, useOther } from './target.js'

export function Where () {
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
      {types && away === null
        ? <OriginForm onDone={() => { setTypes(false) }} />
        : away === null ? <NodeChoice /> : <NodeText />}
    </Section>
  )
}

function NodeChoice () {
  const options = nodesNow.value.filter(({ live }) => live)
    .map(({ id, name, local }) => [id, local ? `${name} (this node)` : name] as const)
  return (
    <Filter
      label="Node" all="the one the page is at" options={options} value={nodeId.value}
      onChange={(id) => { nodeId.value = id }}
    />
  )
}

/** The page has no state from another origin, so the user must type a node's id. */
const NodeText = () => (
  <div class="filter">
    <Field
      label="Id of a node there" spellcheck={false} placeholder="the one that answers" value={nodeId.value}
      onText={(text) => { nodeId.value = text.trim() }}
    />
  </div>
)

function OriginForm ({ onDone }: { onDone: () => void }) {
  const [address, setAddress] = useState('')
  const [token, setToken] = useState('')
  const [asked, setAsked] = useState(false)
  const read = originOf(address)
  const problem = asked && 'problem' in read ? read.problem : null
  return (
    <form
      class="form" onSubmit={(event) => {
        event.preventDefault()
        setAsked(true)
        if ('problem' in read) return
        useOther({ origin: read.origin, token: token.trim() === '' ? null : token.trim() })
        onDone()
      }}
    >
      <Field
        label="Origin" spellcheck={false} placeholder="http://192.168.1.7:52415" value={address}
        onText={setAddress}
      />
      {problem !== null && <p class="problem" role="alert">{problem}</p>}
      <Field
        label="Token, if it wants one" type="password" spellcheck={false} value={token} onText={setToken}
      />
      <p class="hint">
        It is not stored: it stays in the memory of this page, and goes to
        {' '}{'origin' in read ? read.origin : 'the origin above'} only.
      </p>
      <div class="inline"><button type="submit" class="button main">Look there</button></div>
    </form>
  )
}

export function NoAnswer () {
  const { why, command } = noAnswer(target.value.origin, home)
  return (
    <div class="trouble" role="alert">
      <p>{why}</p>
      {command !== null && <Copy text={command} />}
    </div>
  )
}
