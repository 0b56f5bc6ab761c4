import { InstanceRow, playFor, WaitingRow } from '../cluster/instance.js'
import { TransferList } from '../cluster/transfer.js'
import { instances, transfers, waiting } from '../known.js'
import { ask } from '../link.js'
import { goTo, linkTo } from '../route.js'
import { Badge, Confirm, Copy, Empty, Facts, Opens, Section, Trouble, useLoaded } from '../ui/parts.js'
import { bytes, count } from '../ui/text.js'
import { done } from '../ui/toast.js'
import { ChainSection } from './chain.js'
import { CopyList } from './disk.js'
import { DownloadRow } from './downloads.js'
import { changes, downloads } from './live.js'
import { LogsSection } from './logs.js'
import { PlaceDialog } from './place.js'
import { PullDialog } from './pull.js'
import { PurgeDialog } from './purge.js'
import { StageDialog } from './stage.js'
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
      {!virtual && <LogsSection modelId={id} />}
    </>
  )
}

const hubDialog = (modelId: string) => (close: () => void) =>
  <PullDialog wanted={{ modelId, variant: null, revision: null }} onClose={close} />

function Unknown ({ id }: { id: string }) {
  return (
    <Empty title={`No model is called ${id} here.`}>
      <Opens kind="main" dialog={hubDialog(id)}>Look for it at the hub</Opens>
      <a href={linkTo('models')}>All models</a>
    </Empty>
  )
}

function Actions ({ row: { id, tasks, state, placeable } }: { row: Row }) {
  return (
    <>
      {state === 'ready' && <a class="button" href={linkTo('playground', playFor(tasks), id)}>Try it</a>}
      {placeable && (
        <Opens kind="main" dialog={(close) => <PlaceDialog modelId={id} onClose={close} />}>Place</Opens>
      )}
    </>
  )
}

function CardFacts ({ card, origin }: CardAnswer) {
  const { files } = card
  return (
    <>
      <Facts
        list={[
          ['Engine', card.engine], ['Family', card.family], ['Weights', card.quantization],
          ['Size', bytes(card.totalBytes)], ['Context', `${card.contextLength} tokens`],
          ['Layers', card.nLayers], ['Licence', card.licence], ['Languages', card.languages.join(', ')],
          ['Voices', card.voices.map((voice) => voice.id).join(', ')], ['Card from', origin],
          ['Revision', <Copy key="revision" text={card.revision} />]
        ]}
      />
      {files.length > 0 && (
        <details>
          <summary>{count(files.length, 'file')}</summary>
          <ul class="copies">
            {files.map((file) => (
              <li key={file.path}>
                <code>{file.path}</code><span class="hint">{file.role}, {bytes(file.bytes)}</span>
                {file.sha256 !== undefined && <Copy text={file.sha256} shown={file.sha256.slice(0, 12)} />}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  )
}

function Transfers ({ id }: { id: string }) {
  const own = transfers.value.filter(({ modelId }) => modelId === id)
  if (own.length === 0) return null
  return (
    <Section title="On its way"><TransferList list={own} /></Section>
  )
}

function Running ({ id }: { id: string }) {
  const own = instances.value.filter(({ modelId }) => modelId === id)
  const waits = waiting.value.filter(([, one]) => one.modelId === id)
  if (own.length + waits.length === 0) return null
  return (
    <Section title="Where it runs">
      <ul class="rows">
        {own.map((one) => (
          <li key={one.instanceId} class="row"><InstanceRow instance={one} /></li>
        ))}
        {waits.map(([key, one]) => <li key={key} class="row"><WaitingRow id={key} one={one} /></li>)}
      </ul>
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
            <Opens dialog={(close) => <StageDialog modelId={id} copies={copies} onClose={close} />}>
              Copy to nodes
            </Opens>
          )}
          {has('store') && <Opens dialog={hubDialog(id)}>Fetch again</Opens>}
          {(has('staged') || has('cache')) && (
            <Opens dialog={(close) => <PurgeDialog modelId={id} onClose={close} />}>Remove copies</Opens>
          )}
          {has('store') && (
            <Opens kind="danger" dialog={(close) => <RemoveDialog id={id} onClose={close} />}>
              Remove from the store
            </Opens>
          )}
        </>
      )}
    >
      <CopyList copies={copies} by="nodeName" />
    </Section>
  )
}

function RemoveDialog ({ id, onClose }: { id: string, onClose: () => void }) {
  const remove = async (): Promise<void> => {
    await ask('DELETE /store/models/{model_id}', { params: [id] })
    done(`${id} is no more in the store.`)
    goTo('models')
  }
  return (
    <Confirm
      title={`Remove ${id} from the store?`} action="Remove it for good" danger onConfirm={remove}
      onClose={onClose}
    >
      <p>
        Its files go from the store, and from nodes that do not use it. Instances that run go on; to have it
        again it must be fetched anew.
      </p>
    </Confirm>
  )
}
