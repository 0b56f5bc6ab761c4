import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { Badge, Button, Dialog, Trouble, useLoaded } from '../ui/parts.js'
import { bytes, count } from '../ui/text.js'
import { storeModel } from './data.js'
import { pull } from './live.js'
import type { Wanted } from './data.js'

interface Plan {
  modelId: string, hub: string, commit: string, files: number, totalBytes: number
  variant: string | null, engine: 'gguf' | 'onnx' | null, weightsBytes: number
  variants: { name: string, bytes: number }[]
  disk: { node: string, roomBytes: number, problem: string | null }
  memory: {
    neededBytes: number, problem: string | null, engineMissing: string | null, nodes: { name: string }[]
  } | null
}

export function PullDialog ({ wanted, onClose }: { wanted: Wanted, onClose: () => void }) {
  const [variant, setVariant] = useState(wanted.variant)
  const { modelId, revision } = wanted
  const { value, error, again } = useLoaded(async (signal) => {
    const query = new URLSearchParams()
    if (variant !== null) query.set('variant', variant)
    if (revision !== null) query.set('revision', revision)
    const plan = await ask<Plan>(`${storeModel(modelId)}/download/plan?${query}`, { signal })
    return { variant, plan }
  }, [modelId, variant, revision])
  const plan = value?.plan ?? null
  const stale = value !== null && value.variant !== variant
  return (
    <Dialog title={`Pull ${modelId}`} onClose={onClose}>
      <div class="dialog-body">
        {plan === null && error === null && <p class="waiting" role="status">Asking the hub…</p>}
        {error !== null && <Trouble error={error} again={again} />}
        {plan !== null && (
          <>
            <Sums plan={plan} />
            <Weights plan={plan} chosen={variant ?? plan.variant} onChoose={setVariant} />
          </>
        )}
      </div>
      <div class="dialog-foot">
        <Button kind="quiet" onClick={onClose}>Cancel</Button>
        <Button
          kind="main" disabled={plan === null || stale || error !== null || plan.disk.problem !== null}
          onClick={async () => {
            await pull({ modelId, variant, revision })
            onClose()
          }}
        >
          {plan === null || stale ? 'Pull it' : `Pull ${bytes(plan.totalBytes)}`}
        </Button>
      </div>
    </Dialog>
  )
}

function Sums ({ plan }: { plan: Plan }) {
  const { hub, commit, files, totalBytes, weightsBytes, disk, memory } = plan
  return (
    <dl class="facts">
      <div><dt>From</dt><dd>{hub} at {commit.slice(0, 12)}</dd></div>
      <div><dt>To fetch</dt><dd>{count(files, 'file')}, {bytes(totalBytes)}</dd></div>
      <div>
        <dt>Room on the disk of {disk.node}</dt>
        <dd>
          {bytes(disk.roomBytes)}{' '}
          <Badge level={disk.problem === null ? 'ok' : 'error'}>
            {disk.problem === null ? 'it fits' : 'it does not fit'}
          </Badge>
        </dd>
      </div>
      <div>
        <dt>Memory of the cluster</dt>
        <dd>
          at least {bytes(memory?.neededBytes ?? weightsBytes)}{' '}
          {memory !== null && (
            <Badge level={memory.problem === null ? 'ok' : 'warn'}>
              {memory.problem === null
                ? `it fits on ${memory.nodes.map(({ name }) => name).join(', ')}` : 'it does not fit now'}
            </Badge>
          )}
        </dd>
      </div>
      {memory?.problem != null && <div class="whole"><dt>Too large</dt><dd>{memory.problem}</dd></div>}
      {memory?.engineMissing != null && (
        <div class="whole">
          <dt>Not yet runnable</dt>
          <dd>
            It runs on {memory.engineMissing}, which no node has.{' '}
            <code>svc engine add {memory.engineMissing}</code> brings it.
          </dd>
        </div>
      )}
      {disk.problem !== null && <div class="whole"><dt>Why not</dt><dd>{disk.problem}</dd></div>}
    </dl>
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
        <label key={name} class="choice">
          <input
            type="radio" name="weights" checked={name === chosen} onChange={() => { onChoose(name) }}
          />
          <span>{name}</span><span class="hint">{bytes(size)}</span>
        </label>
      ))}
      <p class="hint">Smaller ones are quicker and need less memory; larger ones answer better.</p>
    </fieldset>
  )
}
