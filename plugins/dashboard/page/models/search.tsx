import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { linkTo } from '../route.js'
import { Badge, Button, Empty, Section, Trouble } from '../ui/parts.js'
import { wantedOf } from './data.js'
import { PullDialog } from './pull.js'
import type { Wanted } from './data.js'

interface Found {
  modelId: string, engine: 'gguf' | 'onnx' | null, task: string | null, downloads: number | null
  likes: number | null, updatedAt: string | null, gated: boolean, here: boolean
}

interface Answer { hub: string, query: string, models: Found[] }

export function SearchSection () {
  const [text, setText] = useState('')
  const [answer, setAnswer] = useState<Answer | null>(null)
  const [error, setError] = useState<Error | null>(null)
  const [busy, setBusy] = useState(false)
  const [pulls, setPulls] = useState<Wanted | null>(null)
  const named = wantedOf(text)
  const search = async (): Promise<void> => {
    setBusy(true)
    try {
      const query = new URLSearchParams({ query: named?.modelId ?? text.trim() })
      setAnswer(await ask<Answer>(`/store/search?${query}`))
      setError(null)
    } catch (failure) {
      setError(failure as Error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Section title="Get a model from the hub">
      <form
        class="search" role="search" onSubmit={(event) => {
          event.preventDefault()
          if (text.trim() !== '') void search()
        }}
      >
        <label class="visually-hidden" for="search-hub">Words of a model's name, or org/name</label>
        <input
          id="search-hub" type="search" autocomplete="off" spellcheck={false} value={text}
          placeholder="Words of its name, or org/name:VARIANT"
          onInput={({ currentTarget }) => { setText(currentTarget.value) }}
        />
        <button type="submit" class="button main" disabled={busy || text.trim() === ''} aria-busy={busy}>
          Search
        </button>
        {named !== null && (
          <Button onClick={() => { setPulls(named) }}>Pull {named.modelId}</Button>
        )}
      </form>
      {error !== null && <Trouble error={error} again={() => { void search() }} />}
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

function FoundRow ({ one, onPull }: { one: Found, onPull: (wanted: Wanted) => void }) {
  const { modelId, engine, task, downloads, likes, updatedAt, gated, here } = one
  const about = [
    task, downloads === null ? null : `${downloads.toLocaleString()} downloads`,
    likes === null ? null : `${likes.toLocaleString()} ${likes === 1 ? 'like' : 'likes'}`,
    updatedAt === null ? null : `changed ${new Date(updatedAt).toLocaleDateString()}`
  ].filter((word) => word !== null)
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
        <p class="hint">{about.join(' · ')}</p>
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
