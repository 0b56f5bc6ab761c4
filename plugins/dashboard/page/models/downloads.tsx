import { useState } from 'preact/hooks'
import { amounts, TransferRow } from '../cluster/transfer.js'
import { transfers } from '../known.js'
import { linkTo } from '../route.js'
import { useLoaded } from '../ui/loading.js'
import {
  Badge, Button, Confirm, ConfirmButton, Facts, Progress, RowText, Section, Tick, Trouble
} from '../ui/parts.js'
import { bytes, clock, count, joined } from '../ui/text.js'
import { isRunning, isStopped, type Download, type Wanted } from './data.js'
import { downloads, downloadsError, halt, pull, readDownloads } from './live.js'
import { ask } from '../link.js'
import type { Replies } from '../../../../docs/reference/replies.js'

const ENDED = 5

export function DownloadsSection () {
  const all = downloads.value ?? []
  const open = all.filter((one) => isRunning(one) || isStopped(one))
  const ended = all.filter(({ status }) => status === 'complete').slice(-ENDED)
  const error = downloadsError.value
  if (open.length + ended.length + transfers.value.length === 0 && error === null) return null
  return (
    <Section title="Downloads and copies under way">
      {error !== null && <Trouble error={error} again={readDownloads} />}
      <ul class="rows">
        {open.map((one) => <li key={one.modelId} class="row"><DownloadRow one={one} /></li>)}
        {transfers.value.map((one) => (
          <li key={`${one.nodeId} ${one.modelId}`} class="row"><TransferRow one={one} /></li>
        ))}
        {ended.map(({ modelId, totalBytes, startedAt }) => (
          <li key={modelId} class="row">
            <p class="grow"><a href={linkTo('models', modelId)}>{modelId}</a> is in the store</p>
            <span class="hint">
              {bytes(totalBytes)}{startedAt === null ? '' : ` · begun ${clock(startedAt)}`}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  )
}

export function DownloadRow ({ one }: { one: Download }) {
  const { modelId, status, error, downloadedBytes: done, totalBytes: total } = one
  const moving = isRunning(one)
  const again = async (): Promise<void> => { await pull({ modelId, variant: null, revision: null }) }
  return (
    <>
      <RowText hint={joined([amounts(done, total, ...moving ? [one.bytesPerSecond, one.etaMs] : []), error])}>
        <a href={linkTo('models', modelId)}>{modelId}</a>
        <Badge level={status === 'failed' ? 'error' : moving ? 'plain' : 'warn'}>{status}</Badge>
      </RowText>
      {(moving || total > 0) && <Progress label={`Download of ${modelId}`} done={done} total={total} />}
      {moving && (
        <Button
          needs="cluster:write" label={`Pause ${modelId}`}
          onClick={async () => { await halt(modelId, 'pause') }}
        >
          Pause
        </Button>
      )}
      {isStopped(one) &&
        <Button needs="cluster:write" label={`Resume ${modelId}`} onClick={again}>Resume</Button>}
      {status !== 'cancelled' && (
        <ConfirmButton
          words="Cancel" needs="cluster:write" label={`Cancel ${modelId}`} danger
          title={`Cancel the download of ${modelId}?`} action="Cancel the download"
          onConfirm={async () => { await halt(modelId, 'cancel') }}
        >
          <p>The {bytes(done)} that have come are kept for a while; Resume goes on from there.</p>
        </ConfirmButton>
      )}
    </>
  )
}

type Plan = Replies['GET /store/models/{model_id}/download/plan']

export function PullDialog ({ wanted }: { wanted: Wanted }) {
  const [variant, setVariant] = useState(wanted.variant)
  const { modelId, revision } = wanted
  const { value, error, again } = useLoaded(async (signal) => {
    const query = { ...variant === null ? {} : { variant }, ...revision === null ? {} : { revision } }
    const route = 'GET /store/models/{model_id}/download/plan'
    const plan = await ask(route, { params: [modelId], query, signal })
    return { variant, plan }
  }, [modelId, variant, revision])
  const plan = value?.plan ?? null
  const stale = value !== null && value.variant !== variant
  return (
    <Confirm
      title={`Pull ${modelId}`} onConfirm={() => pull({ modelId, variant, revision })}
      action={plan === null || stale ? 'Pull it' : `Pull ${bytes(plan.totalBytes)}`}
      disabled={plan === null || stale || error !== null || plan.disk.problem !== null}
    >
      {plan === null && error === null && <p class="waiting" role="status">Asking the hub…</p>}
      {error !== null && <Trouble error={error} again={again} />}
      {plan !== null && (
        <>
          <Sums plan={plan} />
          <Weights plan={plan} chosen={variant ?? plan.variant} onChoose={setVariant} />
        </>
      )}
    </Confirm>
  )
}

export const hubDialog = (modelId: string) =>
  <PullDialog wanted={{ modelId, variant: null, revision: null }} />

function Sums ({ plan }: { plan: Plan }) {
  const { hub, commit, files, totalBytes, weightsBytes, disk, memory } = plan
  return (
    <Facts
      list={[
        ['From', `${hub} at ${commit.slice(0, 12)}`],
        ['To fetch', `${count(files, 'file')}, ${bytes(totalBytes)}`],
        [`Room on the disk of ${disk.node}`, (
          <>
            {bytes(disk.roomBytes)}{' '}
            <Badge level={disk.problem === null ? 'ok' : 'error'}>
              {disk.problem === null ? 'it fits' : 'it does not fit'}
            </Badge>
          </>
        )],
        ['Memory of the cluster', (
          <>
            at least {bytes(memory?.neededBytes ?? weightsBytes)}{' '}
            {memory !== null && (
              <Badge level={memory.problem === null ? 'ok' : 'warn'}>
                {memory.problem === null
                  ? `it fits on ${memory.nodes.map(({ name }) => name).join(', ')}` : 'it does not fit now'}
              </Badge>
            )}
          </>
        )],
        ['Too large', memory?.problem, 'whole'],
        ['Not yet runnable', memory?.engineMissing != null && (
          <>
            It runs on {memory.engineMissing}, which no node has.{' '}
            <code>svc engine add {memory.engineMissing}</code> brings it.
          </>
        ), 'whole'],
        ['Why not', disk.problem, 'whole']
      ]}
    />
  )
}

interface WeightsProps { plan: Plan, chosen: string | null, onChoose: (name: string) => void }

function Weights ({ plan, chosen, onChoose }: WeightsProps) {
  const { variants, engine } = plan
  if (variants.length < 2) return null
  return (
    <fieldset class="options">
      <legend>Which weights{engine === null ? '' : ` (${engine.toUpperCase()})`}</legend>
      {variants.map(({ name, bytes: size }) => (
        <Tick key={name} group="weights" checked={name === chosen} onChange={() => { onChoose(name) }}>
          <span>{name}</span><span class="hint">{bytes(size)}</span>
        </Tick>
      ))}
      <p class="hint">Smaller ones are quicker and need less memory; larger ones answer better.</p>
    </fieldset>
  )
}
