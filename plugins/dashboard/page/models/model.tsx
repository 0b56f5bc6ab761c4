import { useState } from 'preact/hooks'
import { InstanceList, playFor, WaitingRow } from '../cluster/instance.js'
import { TransferList } from '../cluster/transfer.js'
import { instances, nameOf, nodes, transfers, waiting } from '../known.js'
import { ask } from '../link.js'
import { linkTo } from '../route.js'
import { Rows } from '../ui/list.js'
import { useAsk, useLoaded } from '../ui/loading.js'
import {
  Badge, Confirm, ConfirmButton, Copy, Empty, Facts, Opens, Section, Sentence, Tick, Trouble
} from '../ui/parts.js'
import { bytes, count, toggled } from '../ui/text.js'
import { done, failed } from '../ui/toast.js'
import { CopyList, PurgeDialog } from './disk.js'
import { DownloadRow, hubDialog } from './downloads.js'
import { changes, downloads } from './live.js'
import { PlaceDialog } from './place.js'
import type { Replies } from '../../../../docs/reference/replies.js'
import type { Copied, Row } from './data.js'

const CARD = 'GET /models/{model_id}/card'
type CardAnswer = Replies[typeof CARD]

export function ModelPage ({ id, row, known }: { id: string, row: Row | null, known: boolean }) {
  const virtual = row?.virtual === true
  const { value, error } = useLoaded(async (signal) =>
    virtual || row === null ? null : await ask(CARD, { params: [id], signal }),
  [id, virtual, row === null, changes.value])
  const download = downloads.value?.find(({ modelId, status }) => modelId === id && status !== 'complete')
  if (row === null && known) return <Unknown id={id} />
  return (
    <>
      <Section title={id} aside={row !== null && <Actions row={row} />}>
        {row !== null && (
          <p class="row-title">
            <Badge level={row.level}>{row.state}</Badge>
            {row.tasks.map((task) => <Badge key={task}>{task}</Badge>)}
          </p>
        )}
        {row !== null && row.title !== id && <p>{row.title}</p>}
        {row !== null && row.description !== '' && <p class="hint">{row.description}</p>}
        {value !== null && <CardFacts {...value} />}
        {error !== null && download === undefined && <Trouble error={error} />}
        {download !== undefined && <div class="row"><DownloadRow one={download} /></div>}
      </Section>
      <Transfers id={id} />
      <Running id={id} />
      <ChainSection modelId={id} />
      {value !== null && <Copies id={id} copies={value.copies} />}
      <a href={`${linkTo('happened', 'logs')}?model=${encodeURIComponent(id)}`}>Its log lines</a>
    </>
  )
}

function Unknown ({ id }: { id: string }) {
  return (
    <Empty title={`No model is called ${id} here.`}>
      <Opens needs="cluster:write" kind="main" dialog={hubDialog(id)}>Look for it at the hub</Opens>
      <a href={linkTo('models')}>All models</a>
    </Empty>
  )
}

function Actions ({ row: { id, tasks, state, placeable } }: { row: Row }) {
  return (
    <>
      {state === 'ready' && <a class="button" href={linkTo('playground', playFor(tasks), id)}>Try it</a>}
      {placeable &&
        <Opens needs="cluster:write" kind="main" dialog={<PlaceDialog modelId={id} />}>Place</Opens>}
    </>
  )
}

const CardFacts = ({ card, origin }: CardAnswer) => (
  <Facts
    list={[
      ['Engine', card.engine], ['Family', card.family], ['Weights', card.quantization],
      ['Size', `${bytes(card.totalBytes)} in ${count(card.files.length, 'file')}`],
      ['Context', `${card.contextLength} tokens`],
      ['Layers', card.nLayers], ['Licence', card.licence], ['Languages', card.languages.join(', ')],
      ['Voices', card.voices.map((voice) => voice.id).join(', ')], ['Card from', origin],
      ['Revision', <Copy key="revision" text={card.revision} />]
    ]}
  />
)

function Transfers ({ id }: { id: string }) {
  const own = transfers.value.filter(({ modelId }) => modelId === id)
  if (own.length === 0) return null
  return (<Section title="On its way"><TransferList list={own} /></Section>)
}

function Running ({ id }: { id: string }) {
  const own = instances.value.filter(({ modelId }) => modelId === id)
  const waits = waiting.value.filter(([, one]) => one.modelId === id)
  if (own.length + waits.length === 0) return null
  return (
    <Section title="Where it runs">
      {own.length > 0 && <InstanceList list={own} />}
      <Rows items={waits} keyOf={([key]) => key} row={([key, one]) => <WaitingRow id={key} one={one} />} />
    </Section>
  )
}

function Copies ({ id, copies }: { id: string, copies: readonly Copied[] }) {
  const has = (kind: Copied['kind']): boolean => copies.some((copy) => copy.kind === kind)
  return (
    <Section
      title="Copies" aside={!has('bundled') && (
        <>
          {has('store') && (
            <Opens needs="cluster:write" dialog={<StageDialog modelId={id} copies={copies} />}>
              Copy to nodes
            </Opens>
          )}
          {has('store') && <Opens needs="cluster:write" dialog={hubDialog(id)}>Fetch again</Opens>}
          {(has('staged') || has('cache')) && (
            <Opens needs="cluster:write" dialog={<PurgeDialog modelId={id} />}>Remove copies</Opens>
          )}
          {has('store') && <RemoveButton id={id} />}
        </>
      )}
    >
      <CopyList copies={copies} by="nodeName" />
    </Section>
  )
}

function RemoveButton ({ id }: { id: string }) {
  const remove = async (): Promise<void> => {
    await ask('DELETE /store/models/{model_id}', { params: [id] })
    done(`${id} is no more in the store.`)
    location.hash = linkTo('models')
  }
  return (
    <ConfirmButton
      words="Remove from the store" needs="cluster:write" kind="danger" title={`Remove ${id} from the store?`}
      action="Remove it for good" danger onConfirm={remove}
    >
      <p>
        Its files go from the store, and from nodes that do not use it. Instances that run go on; to have it
        again it must be fetched anew.
      </p>
    </ConfirmButton>
  )
}

interface StageProps { modelId: string, copies: readonly Copied[] }

function StageDialog ({ modelId, copies }: StageProps) {
  const [chosen, setChosen] = useState<readonly string[]>([])
  const there = new Set(copies.filter(({ kind }) => kind === 'staged').map(({ nodeId }) => nodeId))
  const list = nodes.value.filter(({ live }) => live)
  const stage = async (): Promise<void> => {
    const { nodes: results } = await ask('POST /store/models/{model_id}/stage',
      { params: [modelId], body: { nodeIds: chosen } })
    for (const { nodeId, error } of results) {
      if (error !== null) failed(new Error(`${nameOf(nodeId)}: ${error}`))
    }
    const goes = results.filter(({ error }) => error === null).map(({ nodeId }) => nameOf(nodeId))
    if (goes.length > 0) done(`${modelId} is on its way to ${goes.join(', ')}.`)
  }
  return (
    <Confirm
      title={`Copy ${modelId} to nodes`} action="Copy it" disabled={chosen.length === 0} onConfirm={stage}
    >
      <fieldset class="options">
        <legend>Which nodes</legend>
        {list.map(({ id, name }) => (
          <Tick
            key={id} disabled={there.has(id)} checked={there.has(id) || chosen.includes(id)}
            onChange={(on) => { setChosen(toggled(chosen, id, on)) }}
          >
            <span>{name}</span>{there.has(id) && <span class="hint">has it</span>}
          </Tick>
        ))}
      </fieldset>
    </Confirm>
  )
}

const WORDS = {
  card: 'Known', copy: 'Files', backend: 'Engine', placement: 'Place', runner: 'Runner', request: 'Requests'
}

function ChainSection ({ modelId }: { modelId: string }) {
  const { value, error, again } = useAsk('GET /models/{model_id}/availability',
    [modelId, changes.value], { params: [modelId] })
  return (
    <Section
      title="What it needs to answer"
      aside={value !== null && (
        <Badge level={value.available ? 'ok' : 'warn'}>
          {value.available ? 'available' : 'not available'}
        </Badge>
      )}
    >
      {error !== null && <Trouble error={error} again={again} />}
      {value !== null && (
        <ol class="chain">
          {value.links.map(({ link, ok, message, remedy, code }) => (
            <li key={link} class={ok === null ? 'unknown' : ok ? 'whole' : 'broken'}>
              <p>
                <strong>{WORDS[link]}</strong>{' '}
                {ok === false && <Badge level="error">{code ?? 'broken'}</Badge>}
              </p>
              <p class="hint">{message}</p>
              {ok === false && remedy !== null && <p><Sentence text={remedy} /></p>}
            </li>
          ))}
        </ol>
      )}
    </Section>
  )
}
