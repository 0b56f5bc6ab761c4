import { amounts, bars, TransferRow } from '../cluster/transfer.js'
import { transfers } from '../known.js'
import { linkTo } from '../route.js'
import { Badge, Button, Confirm, Opens, Progress, Section, Trouble } from '../ui/parts.js'
import { bytes, clock } from '../ui/text.js'
import { isRunning, isStopped } from './data.js'
import { downloads, downloadsError, halt, pull, readDownloads } from './live.js'
import type { Download } from './data.js'

const ENDED = 5

export function DownloadsSection () {
  const all = downloads.value ?? []
  const open = all.filter((one) => isRunning(one) || isStopped(one))
  const ended = all.filter(({ status }) => status === 'complete').slice(-ENDED)
  const error = downloadsError.value
  if (open.length + ended.length + transfers.value.length === 0 && error === null) return null
  return (
    <Section title="Downloads and copies under way">
      {error !== null && <Trouble error={error} again={() => { void readDownloads() }} />}
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
  const { modelId, status, error, startedAt, downloadedBytes, totalBytes } = one
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
        <Opens
          label={`Cancel ${modelId}`}
          dialog={(close) => (
            <Confirm
              title={`Cancel the download of ${modelId}?`} action="Cancel the download" danger
              onConfirm={async () => { await halt(modelId, 'cancel') }} onClose={close}
            >
              <p>The {bytes(done)} that have come are kept for a while; Resume goes on from there.</p>
            </Confirm>
          )}
        >
          Cancel
        </Opens>
      )}
    </>
  )
}
