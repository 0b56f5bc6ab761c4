import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { Badge, Confirm, Facts, Tick, Trouble, useLoaded } from '../ui/parts.js'
import { bytes, count } from '../ui/text.js'
import { pull } from './live.js'
import type { Replies } from '../../../../docs/reference/replies.js'
import type { Wanted } from './data.js'

type Plan = Replies['GET /store/models/{model_id}/download/plan']

export function PullDialog ({ wanted, onClose }: { wanted: Wanted, onClose: () => void }) {
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
      title={`Pull ${modelId}`} onClose={onClose} onConfirm={() => pull({ modelId, variant, revision })}
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
