import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { linkTo } from '../route.js'
import { Badge, Button, Empty, Field, Section, Trouble, useLoaded } from '../ui/parts.js'
import { joined } from '../ui/text.js'
import { wantedOf } from './data.js'
import { PullDialog } from './pull.js'
import type { Replies } from '../../../../docs/reference/replies.js'
import type { Wanted } from './data.js'

type Answer = Replies['GET /store/search']

export function SearchSection () {
  const [text, setText] = useState('')
  const [query, setQuery] = useState<string | null>(null)
  const { value: answer, error, again } = useLoaded(async (signal) =>
    query === null ? null : await ask('GET /store/search', { query: { query }, signal }), [query])
  const [pulls, setPulls] = useState<Wanted | null>(null)
  const named = wantedOf(text)
  return (
    <Section title="Get a model from the hub">
      <form
        class="search" role="search" onSubmit={(event) => {
          event.preventDefault()
          setQuery(named?.modelId ?? text.trim())
          again()
        }}
      >
        <Field
          label="Words of a model's name, or org/name" unseen type="search" spellcheck={false}
          placeholder="Words of its name, or org/name:VARIANT" value={text} onText={setText}
        />
        <button type="submit" class="button main" disabled={text.trim() === ''}>Search</button>
        {named !== null && (
          <Button onClick={() => { setPulls(named) }}>Pull {named.modelId}</Button>
        )}
      </form>
      {error !== null && <Trouble error={error} again={again} />}
      {answer !== null && error === null && <Results answer={answer} onPull={setPulls} />}
      {pulls !== null && <PullDialog wanted={pulls} onClose={() => { setPulls(null) }} />}
    </Section>
  )
}

function Results ({ answer, onPull }: { answer: Answer, onPull: (wanted: Wanted) => void }) {
  const { hub, query, models } = answer
  if (models.length === 0) {
    return (
      <Empty title={`${hub} has no model with “${query}” in its name.`}>
        <p>Fewer words find more; `org/name` is pulled as it is.</p>
      </Empty>
    )
  }
  return (
    <ul class="rows" aria-label={`Found at ${hub}`}>
      {models.map((one) => <li key={one.modelId} class="row"><FoundRow one={one} onPull={onPull} /></li>)}
    </ul>
  )
}

function FoundRow ({ one, onPull }: { one: Answer['models'][number], onPull: (wanted: Wanted) => void }) {
  const { modelId, engine, task, downloads, likes, updatedAt, gated, here } = one
  const about = joined([
    task, downloads === null ? null : `${downloads.toLocaleString()} downloads`,
    likes === null ? null : `${likes.toLocaleString()} ${likes === 1 ? 'like' : 'likes'}`,
    updatedAt === null ? null : `changed ${new Date(updatedAt).toLocaleDateString()}`
  ])
  return (
    <>
      <div class="grow">
        <p class="row-title">
          <span>{modelId}</span>
          {engine === null
            ? <Badge level="warn">runs nowhere here</Badge>
            : <Badge>{engine.toUpperCase()}</Badge>}
          {gated && <Badge level="warn">terms to accept</Badge>}
        </p>
        <p class="hint">{about}</p>
        {engine === null && <p class="hint">Look for a conversion of it to GGUF or ONNX.</p>}
      </div>
      {here
        ? <a class="button" href={linkTo('models', modelId)}>It is here</a>
        : engine !== null && (
          <Button
            label={`Pull ${modelId}`} onClick={() => { onPull({ modelId, variant: null, revision: null }) }}
          >
            Pull
          </Button>
        )}
    </>
  )
}
