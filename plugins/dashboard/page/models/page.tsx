import { useState } from 'preact/hooks'
import { playFor } from '../cluster/instance.js'
import { instances, transfers, waiting } from '../known.js'
import { ask, past } from '../link.js'
import { linkTo, route } from '../route.js'
import { useLoaded } from '../ui/loading.js'
import { Badge, Empty, Field, Form, Opens, RowText, Section, Trouble } from '../ui/parts.js'
import { Rows } from '../ui/list.js'
import { bytes, count, joined } from '../ui/text.js'
import { DiskSection } from './disk.js'
import { DownloadsSection, hubDialog, PullDialog } from './downloads.js'
import { filterRows, rowsOf, wantedOf, type Row } from './data.js'
import { downloads, useCatalogue, useDownloads } from './live.js'
import { ModelPage } from './model.js'
import { PlaceDialog } from './place.js'
import type { Replies } from '../../../../docs/reference/replies.js'

export function ModelsPage () {
  useDownloads()
  const { value, error, again } = useCatalogue()
  const rows = value === null
    ? null
    : rowsOf(value.entries, value.copies, {
        instances: instances.value, downloads: downloads.value ?? [], transfers: transfers.value,
        waiting: waiting.value.map(([, { modelId }]) => modelId)
      })
  const [id] = route.value.parts
  if (id !== undefined) {
    const row = rows?.find((one) => one.id === id) ?? null
    return <ModelPage key={id} id={id} row={row} known={rows !== null} />
  }
  return (
    <>
      {error !== null && <Trouble error={error} again={again} />}
      {past.value !== null && (
        <p class="hint">What runs is that of the earlier moment; the catalogue and the disks are of now.</p>
      )}
      {rows !== null && <CatalogueSection rows={rows} />}
      <DownloadsSection />
      <SearchSection />
      {value !== null && <DiskSection copies={value.copies} />}
    </>
  )
}

function CatalogueSection ({ rows }: { rows: readonly Row[] }) {
  const [text, setText] = useState('')
  const shown = filterRows(rows, text)
  return (
    <Section
      title="Models" aside={(
        <>
          <Field
            label="Show only models with these words" unseen type="search" class="sieve" placeholder="Filter"
            value={text} onText={setText}
          />
          <span>{count(shown.length, 'model')}</span>
        </>
      )}
    >
      {shown.length === 0
        ? (
            <Empty title={rows.length === 0 ? 'There is no model yet.' : 'No model has these words.'}>
              <p>Search the hub below for one.</p>
            </Empty>
          )
        : (
            <Rows
              label="Models" items={shown} keyOf={({ id }) => id} rowHeight={84}
              row={(row) => <ModelRow row={row} />}
            />
          )}
    </Section>
  )
}

function ModelRow ({ row }: { row: Row }) {
  const { id, title, tasks, sizeBytes, quantization, state, level, remedy, placeable } = row
  const about = joined([
    title === id ? null : title, tasks.join(', '), sizeBytes === null ? null : bytes(sizeBytes), quantization,
    row.contextLength > 0 ? `${row.contextLength} tokens of context` : null,
    row.nodes.length === 0 ? null : `on the disk of ${row.nodes.join(', ')}`
  ])
  return (
    <>
      <RowText hint={<>{about}{remedy !== null && level !== 'ok' && <><br />{remedy}</>}</>}>
        <a href={linkTo('models', id)}>{id}</a>
        <Badge level={level}>{state}</Badge>
        {row.instances > 1 && <Badge>{count(row.instances, 'instance')}</Badge>}
      </RowText>
      {state === 'ready' && <a class="button" href={linkTo('playground', playFor(tasks), id)}>Try it</a>}
      {placeable && (
        <Opens needs="cluster:write" label={`Place ${id}`} dialog={<PlaceDialog modelId={id} />}>Place</Opens>
      )}
    </>
  )
}

type Answer = Replies['GET /store/search']

function SearchSection () {
  const [text, setText] = useState('')
  const [query, setQuery] = useState<string | null>(null)
  const { value: answer, error, again } = useLoaded(async (signal) =>
    query === null ? null : await ask('GET /store/search', { query: { query }, signal }), [query])
  const named = wantedOf(text)
  return (
    <Section title="Get a model from the hub">
      <Form
        class="search" role="search" onSubmit={() => {
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
          <Opens needs="cluster:write" dialog={<PullDialog wanted={named} />}>Pull {named.modelId}</Opens>
        )}
      </Form>
      {error !== null && <Trouble error={error} again={again} />}
      {answer !== null && error === null && <Results answer={answer} />}
    </Section>
  )
}

function Results ({ answer: { hub, query, models } }: { answer: Answer }) {
  if (models.length === 0) {
    return (
      <Empty title={`${hub} has no model with “${query}” in its name.`}>
        <p>Fewer words find more; `org/name` is pulled as it is.</p>
      </Empty>
    )
  }
  return (
    <Rows
      label={`Found at ${hub}`} items={models} keyOf={({ modelId }) => modelId}
      row={(one) => <FoundRow one={one} />}
    />
  )
}

function FoundRow ({ one }: { one: Answer['models'][number] }) {
  const { modelId, engine, task, downloads, likes, updatedAt, gated, here } = one
  const about = joined([
    task, downloads === null ? null : `${downloads.toLocaleString()} downloads`,
    likes === null ? null : `${likes.toLocaleString()} ${likes === 1 ? 'like' : 'likes'}`,
    updatedAt === null ? null : `changed ${new Date(updatedAt).toLocaleDateString()}`
  ])
  return (
    <>
      <RowText
        hint={<>{about}{engine === null && <><br />Look for a conversion of it to GGUF or ONNX.</>}</>}
      >
        <span>{modelId}</span>
        {engine === null
          ? <Badge level="warn">runs nowhere here</Badge>
          : <Badge>{engine.toUpperCase()}</Badge>}
        {gated && <Badge level="warn">terms to accept</Badge>}
      </RowText>
      {here
        ? <a class="button" href={linkTo('models', modelId)}>It is here</a>
        : engine !== null && (
          <Opens needs="cluster:write" label={`Pull ${modelId}`} dialog={hubDialog(modelId)}>Pull</Opens>
        )}
    </>
  )
}
