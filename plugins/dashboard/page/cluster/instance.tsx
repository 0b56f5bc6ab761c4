import { useState } from 'preact/hooks'
import { call } from '../link.js'
import { linkTo } from '../route.js'
import { Badge, Button, Confirm, Copy } from '../ui/parts.js'
import { clock, count } from '../ui/text.js'
import { done } from '../ui/toast.js'
import type { Instance, Waiting } from '../state.js'

interface InstanceRowProps { instance: Instance, names: ReadonlyMap<string, string> }

export function InstanceRow ({ instance, names }: InstanceRowProps) {
  const [stops, setStops] = useState(false)
  const { instanceId, modelId, nodeIds, phase, ready, inFlight } = instance
  const level = ready ? 'ok' : phase === 'failed' ? 'error' : 'warn'
  const play = instance.card?.tasks.includes('tts') === true ? 'speech' : 'chat'
  return (
    <>
      <div class="grow">
        <p class="row-title">
          <a href={linkTo('models', modelId)}>{modelId}</a>
          <Badge level={level}>{phase}</Badge>
          {inFlight > 0 && <Badge>{count(inFlight, 'request')}</Badge>}
        </p>
        <p class="hint">
          on {nodeIds.map((id) => names.get(id) ?? id.slice(0, 8)).join(', ')} · {instance.engine}
          {' · '}{instance.contextTokenLimit} tokens of context
          {' · '}<Copy text={instanceId} shown={instanceId.slice(0, 8)} />
        </p>
      </div>
      {ready && <a class="button" href={linkTo('playground', play, modelId)}>Try it</a>}
      <Button label={`Stop ${modelId}`} onClick={() => { setStops(true) }}>Stop</Button>
      {stops && <StopDialog instance={instance} onClose={() => { setStops(false) }} />}
    </>
  )
}

export function WaitingRow ({ id, one }: { id: string, one: Waiting }) {
  const { modelId, reason, message, since } = one
  const giveUp = async (): Promise<void> => {
    await call(`/instance/${encodeURIComponent(id)}`, { method: 'DELETE' })
    done(`${modelId} waits no more.`)
  }
  return (
    <>
      <div class="grow">
        <p class="row-title">
          <a href={linkTo('models', modelId)}>{modelId}</a> <Badge level="warn">{reason}</Badge>
        </p>
        <p class="hint">{message} It waits since {clock(since)}.</p>
      </div>
      <Button label={`Have ${modelId} wait no more`} onClick={giveUp}>Wait no more</Button>
    </>
  )
}

function StopDialog ({ instance, onClose }: { instance: Instance, onClose: () => void }) {
  const { instanceId, modelId, inFlight } = instance
  const stop = async (): Promise<void> => {
    await call(`/instance/${instanceId}`, { method: 'DELETE' })
    done(`${modelId} is being stopped.`)
  }
  return (
    <Confirm title={`Stop ${modelId}?`} action="Stop it" danger onConfirm={stop} onClose={onClose}>
      <p>
        {inFlight === 0
          ? 'It serves no request now.'
          : `It serves ${count(inFlight, 'request')}; they may end first.`}
        {' '}Its files stay where they are.
      </p>
    </Confirm>
  )
}
