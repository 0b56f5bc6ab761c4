import { nameOf } from '../known.js'
import { ask } from '../link.js'
import { linkTo } from '../route.js'
import { Rows } from '../ui/list.js'
import { Badge, Button, ConfirmButton, Copy, RowText } from '../ui/parts.js'
import { clock, count } from '../ui/text.js'
import { done } from '../ui/toast.js'
import type { Instance, Waiting } from '../state.js'

/** The playground mode in which to open a model with these tasks. */
export const playFor = (tasks: readonly string[]): string =>
  tasks.includes('tts') ? 'speech' : tasks.includes('stt') ? 'listening' : 'chat'

export const InstanceList = ({ list }: { list: readonly Instance[] }) => (
  <Rows
    label="Instances" items={list} keyOf={({ instanceId }) => instanceId} rowHeight={72}
    row={(instance) => <InstanceRow instance={instance} />}
  />
)

function InstanceRow ({ instance }: { instance: Instance }) {
  const { instanceId, modelId, nodeIds, phase, ready, inFlight } = instance
  const level = ready ? 'ok' : phase === 'failed' ? 'error' : 'warn'
  const stop = async (): Promise<void> => {
    await ask('DELETE /instance/{instance_id}', { params: [instanceId] })
    done(`${modelId} is being stopped.`)
  }
  return (
    <>
      <RowText
        hint={(
          <>
            on {nodeIds.map(nameOf).join(', ')} · {instance.engine}
            {' · '}{instance.contextTokenLimit} tokens of context
            {' · '}<Copy text={instanceId} shown={instanceId.slice(0, 8)} />
          </>
        )}
      >
        <a href={linkTo('models', modelId)}>{modelId}</a>
        <Badge level={level}>{phase}</Badge>
        {inFlight > 0 && <Badge>{count(inFlight, 'request')}</Badge>}
      </RowText>
      {ready && (
        <a class="button" href={linkTo('playground', playFor(instance.card?.tasks ?? []), modelId)}>Try it</a>
      )}
      <ConfirmButton
        words="Stop" needs="cluster:write" label={`Stop ${modelId}`} title={`Stop ${modelId}?`}
        action="Stop it" danger onConfirm={stop}
      >
        <p>
          {inFlight === 0
            ? 'It serves no request now.'
            : `It serves ${count(inFlight, 'request')}; they may end first.`}
          {' '}Its files stay where they are.
        </p>
      </ConfirmButton>
    </>
  )
}

export function WaitingRow ({ id, one }: { id: string, one: Waiting }) {
  const { modelId, reason, message, since } = one
  const giveUp = async (): Promise<void> => {
    await ask('DELETE /instance/{instance_id}', { params: [id] })
    done(`${modelId} waits no more.`)
  }
  return (
    <>
      <RowText hint={`${message} It waits since ${clock(since)}.`}>
        <a href={linkTo('models', modelId)}>{modelId}</a> <Badge level="warn">{reason}</Badge>
      </RowText>
      <Button needs="cluster:write" label={`Have ${modelId} wait no more`} onClick={giveUp}>
        Wait no more
      </Button>
    </>
  )
}
