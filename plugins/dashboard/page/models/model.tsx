import { useState } from 'preact/hooks'
import { InstanceRow, WaitingRow } from '../cluster/instance.js'
import { ask, call, state } from '../link.js'
import { goTo, linkTo } from '../route.js'
import { Badge, Button, Confirm, Copy, Empty, Section, Trouble, useLoaded } from '../ui/parts.js'
import { bytes, count } from '../ui/text.js'
import { done } from '../ui/toast.js'
import { ChainSection } from './chain.js'
import { storeModel } from './data.js'
import { CopyList } from './disk.js'
import { DownloadRow, TransferRow } from './downloads.js'
import { changes, downloads, instances, names, transfers } from './live.js'
import { LogsSection } from './logs.js'
import { PlaceDialog } from './place.js'
import { PullDialog } from './pull.js'
import { PurgeDialog } from './purge.js'
import { StageDialog } from './stage.js'
import type { Copied, Row } from './data.js'

interface CardAnswer { origin: string, copies: Copied[], card: Card }

interface Card {
  title?: string, description?: string, tasks: string[], family: string, engine: string, revision?: string
  totalBytes?: number, contextLength: number, nLayers: number, quantization: string | null
  licence?: string | null, languages?: string[], voices?: { id: string }[]
  files?: { path: string, bytes: number, role: string, sha256?: string }[]
}

type Shown = 'place' | 'pull' | 'stage' | 'purge' | 'remove' | null

export function ModelPage ({ id, row, known }: { id: string, row: Row | null, known: boolean }) {
  const [shown, setShown] = useState<Shown>(null)
  const virtual = row?.virtual === true
  const { value, error } = useLoaded<CardAnswer | null>(async (signal) => virtual || row === null
    ? null
    : await ask<CardAnswer>(`/models/${encodeURIComponent(id)}/card`, { signal }),
  [id, virtual, row === null, changes.value])
  const close = (): void => { setShown(null) }
  const download = downloads.value?.find(({ modelId, status }) => modelId === id && status !== 'complete')
  if (row === null && known) return <Unknown id={id} />
  return (
    <>
      <Section title={id} aside={row !== null && <Actions row={row} onShow={setShown} />}>
        {row !== null && (
          <p class="row-title">
            <Badge level={row.level}>{row.state}</Badge>
            {row.tasks.map((task) => <Badge key={task}>{task}</Badge>)}
          </p>
        )}
        {row !== null && row.title !== id && <p>{row.title}</p>}
        {row !== null && row.description !== '' && <p class="hint">{row.description}</p>}
        {value !== null && <Facts {...value} />}
        {error !== null && download === undefined && <Trouble error={error} />}
        {download !== undefined && <div class="row"><DownloadRow one={download} /></div>}
      </Section>
      <Transfers id={id} />
      <Running id={id} />
      <ChainSection modelId={id} />
      {value !== null && <Copies copies={value.copies} onShow={setShown} />}
      {!virtual && <LogsSection modelId={id} />}
      {shown === 'place' && <PlaceDialog modelId={id} onClose={close} />}
      {shown === 'pull' && (
        <PullDialog wanted={{ modelId: id, variant: null, revision: null }} onClose={close} />
      )}
      {shown === 'stage' && <StageDialog modelId={id} copies={value?.copies ?? []} onClose={close} />}
      {shown === 'purge' && <PurgeDialog modelId={id} onClose={close} />}
      {shown === 'remove' && <RemoveDialog id={id} onClose={close} />}
    </>
  )
}

function Unknown ({ id }: { id: string }) {
  const [pulls, setPulls] = useState(false)
  return (
    <Empty title={`No model is called ${id} here.`}>
      <Button kind="main" onClick={() => { setPulls(true) }}>Look for it at the hub</Button>
      <a href={linkTo('models')}>All models</a>
      {pulls && (
        <PullDialog
          wanted={{ modelId: id, variant: null, revision: null }} onClose={() => { setPulls(false) }}
        />
      )}
    </Empty>
  )
}

function Actions ({ row, onShow }: { row: Row, onShow: (what: Shown) => void }) {
  const { id, tasks, state, virtual } = row
  const play = tasks.includes('tts') ? 'speech' : 'chat'
  return (
    <>
      {state === 'ready' && <a class="button" href={linkTo('playground', play, id)}>Try it</a>}
      {!virtual && <Button kind="main" onClick={() => { onShow('place') }}>Place</Button>}
    </>
  )
}

function Facts ({ card, origin }: CardAnswer) {
  const files = card.files ?? []
  const facts: [string, string | null | undefined][] = [
    ['Engine', card.engine], ['Family', card.family], ['Weights', card.quantization],
    ['Size', card.totalBytes === undefined ? null : bytes(card.totalBytes)],
    ['Context', `${card.contextLength} tokens`], ['Layers', String(card.nLayers)],
    ['Licence', card.licence], ['Languages', card.languages?.join(', ')],
    ['Voices', card.voices?.map((voice) => voice.id).join(', ')], ['Card from', origin]
  ]
  return (
    <>
      <dl class="facts">
        {facts.filter(([, value]) => value != null && value !== '').map(([name, value]) => (
          <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
        ))}
        {card.revision !== undefined && <div><dt>Revision</dt><dd><Copy text={card.revision} /></dd></div>}
      </dl>
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
  const own = transfers.value.filter(({ modelId, status }) => modelId === id && status !== 'completed')
  if (own.length === 0) return null
  return (
    <Section title="On its way">
      <ul class="rows">
        {own.map((one) => <li key={one.nodeId} class="row"><TransferRow one={one} /></li>)}
      </ul>
    </Section>
  )
}

function Running ({ id }: { id: string }) {
  const own = instances.value.filter(({ modelId }) => modelId === id)
  const waits = Object.entries(state.value.waitingInstances ?? {}).filter(([, one]) => one.modelId === id)
  if (own.length + waits.length === 0) return null
  return (
    <Section title="Where it runs">
      <ul class="rows">
        {own.map((one) => (
          <li key={one.instanceId} class="row"><InstanceRow instance={one} names={names.value} /></li>
        ))}
        {waits.map(([key, one]) => <li key={key} class="row"><WaitingRow id={key} one={one} /></li>)}
      </ul>
    </Section>
  )
}

function Copies ({ copies, onShow }: { copies: readonly Copied[], onShow: (what: Shown) => void }) {
  const has = (kind: Copied['kind']): boolean => copies.some((copy) => copy.kind === kind)
  return (
    <Section
      title="Copies" aside={!has('bundled') && (
        <>
          {has('store') && <Button onClick={() => { onShow('stage') }}>Copy to nodes</Button>}
          {has('store') && <Button onClick={() => { onShow('pull') }}>Fetch again</Button>}
          {(has('staged') || has('cache')) && (
            <Button onClick={() => { onShow('purge') }}>Remove copies</Button>
          )}
          {has('store') && (
            <Button kind="danger" onClick={() => { onShow('remove') }}>Remove from the store</Button>
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
    await call(storeModel(id), { method: 'DELETE' })
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
