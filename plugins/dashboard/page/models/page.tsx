import { useState } from 'preact/hooks'
import { playFor } from '../cluster/instance.js'
import { instances, transfers, waiting } from '../known.js'
import { past } from '../link.js'
import { linkTo, route } from '../route.js'
import { Badge, Empty, Field, Opens, Section, Trouble } from '../ui/parts.js'
import { LongList } from '../ui/list.js'
import { bytes, count, joined } from '../ui/text.js'
import { DiskSection } from './disk.js'
import { DownloadsSection } from './downloads.js'
import { filterRows, rowsOf } from './data.js'
import { downloads, useCatalogue, useDownloads } from './live.js'
import { ModelPage } from './model.js'
import { PlaceDialog } from './place.js'
import { SearchSection } from './search.js'
import type { Row } from './data.js'

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
            <LongList
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
      <div class="grow">
        <p class="row-title">
          <a href={linkTo('models', id)}>{id}</a>
          <Badge level={level}>{state}</Badge>
          {row.instances > 1 && <Badge>{count(row.instances, 'instance')}</Badge>}
        </p>
        <p class="hint">{about}</p>
        {remedy !== null && level !== 'ok' && <p class="hint">{remedy}</p>}
      </div>
      {state === 'ready' && <a class="button" href={linkTo('playground', playFor(tasks), id)}>Try it</a>}
      {placeable && (
        <Opens label={`Place ${id}`} dialog={(close) => <PlaceDialog modelId={id} onClose={close} />}>
          Place
        </Opens>
      )}
    </>
  )
}
