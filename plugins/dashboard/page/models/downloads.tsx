import { useState } from 'preact/hooks'
import { linkTo } from '../route.js'
import { Badge, Button, Confirm, Progress, Section, Trouble } from '../ui/parts.js'
import { bytes, clock, percent, rate, span } from '../ui/text.js'
import { isRunning, isStopped } from './data.js'
import { bars, downloads, downloadsError, halt, names, pull, readDownloads, transfers } from './live.js'
import type { Download } from './data.js'
import type { Transfer } from '../state.js'

/** Downloads that ended are shown so many. */
const ENDED = 5

export function DownloadsSection () {
  const all = downloads.value ?? []
  const open = all.filter((one) => isRunning(one) || isStopped(one))
  const ended = all.filter(({ status }) => status === 'complete').slice(-ENDED)
  const moving = transfers.value.filter(({ status }) => status !== 'completed')
  const error = downloadsError.value
  if (open.length + ended.length + moving.length === 0 && error === null) return null
  return (
    <Section title="Downloads and copies under way">
      {error !== null && <Trouble error={error} again={() => { void readDownloads() }} />}
      <ul class="rows">
        {open.map((one) => <li key={one.modelId} class="row"><DownloadRow one={one} /></li>)}
        {moving.map((one) => (
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

function amounts (
  done: number, total: number | null, speed: number | null, etaMs: number | null
): string {
  return [
    total === null ? (done > 0 ? bytes(done) : 'waiting') : `${bytes(done)} of ${bytes(total)}`,
    total === null ? null : percent(Math.floor(100 * done / total) / 100),
    speed === null || speed === 0 ? null : rate(speed),
    etaMs === null ? null : `${span(Math.max(1000, etaMs))} left`
  ].filter((word) => word !== null).join(' · ')
}

export function DownloadRow ({ one }: { one: Download }) {
  const { modelId, status, error, startedAt, downloadedBytes, totalBytes } = one
  const [cancels, setCancels] = useState(false)
  const { done, total } = bars.at(`store ${modelId}`, startedAt ?? '', downloadedBytes, totalBytes)
  const moving = isRunning(one)
  const again = async (): Promise<void> => { await pull({ modelId, variant: null, revision: null }) }
  return (
    <>
      <div class="grow">
        <p class="row-title">
          <a href={linkTo('models', modelId)}>{modelId}</a>
          <Badge level={status === 'failed' ? 'error' : moving ? 'plain' : 'warn'}>{status}</Badge>
        </p>
        <p class="hint">
          {amounts(done, total, moving ? one.bytesPerSecond : null, moving ? one.etaMs : null)}
        </p>
        {error !== null && <p class="hint">{error}</p>}
      </div>
      {(moving || total !== null) && <Progress label={`Download of ${modelId}`} done={done} total={total} />}
      {moving && (
        <Button label={`Pause ${modelId}`} onClick={async () => { await halt(modelId, 'pause') }}>
          Pause
        </Button>
      )}
      {isStopped(one) && <Button label={`Resume ${modelId}`} onClick={again}>Resume</Button>}
      {status !== 'cancelled' && (
        <Button label={`Cancel ${modelId}`} onClick={() => { setCancels(true) }}>Cancel</Button>
      )}
      {cancels && (
        <Confirm
          title={`Cancel the download of ${modelId}?`} action="Cancel the download" danger
          onConfirm={async () => { await halt(modelId, 'cancel') }} onClose={() => { setCancels(false) }}
        >
          <p>The {bytes(done)} that have come are kept for a while; Resume goes on from there.</p>
        </Confirm>
      )}
    </>
  )
}

export function TransferRow ({ one }: { one: Transfer }) {
  const { modelId, nodeId, attemptId, status, error } = one
  const name = names.value.get(nodeId) ?? nodeId
  const { done, total } = bars.at(`${nodeId} ${modelId}`, attemptId, one.done, one.total)
  return (
    <>
      <div class="grow">
        <p class="row-title">
          <a href={linkTo('models', modelId)}>{modelId}</a> to <a href={linkTo('cluster', nodeId)}>{name}</a>
        </p>
        <p class="hint">{error ?? amounts(done, total, one.bytesPerSecond, one.etaMs)}</p>
      </div>
      {status === 'failed'
        ? <Badge level="error">failed</Badge>
        : <Progress label={`Copy of ${modelId} to ${name}`} done={done} total={total} />}
    </>
  )
}
