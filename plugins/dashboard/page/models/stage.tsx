import { useState } from 'preact/hooks'
import { ask } from '../link.js'
import { Button, Dialog } from '../ui/parts.js'
import { done, failed } from '../ui/toast.js'
import { nodes, names } from './live.js'
import { storeModel } from './data.js'
import type { Copied } from './data.js'

interface Staged { nodes: { nodeId: string, error: string | null }[] }

interface StageProps { modelId: string, copies: readonly Copied[], onClose: () => void }

export function StageDialog ({ modelId, copies, onClose }: StageProps) {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const there = new Set(copies.filter(({ kind }) => kind === 'staged').map(({ nodeId }) => nodeId))
  const list = nodes.value.filter(({ live }) => live)
  const stage = async (): Promise<void> => {
    const { nodes: results } = await ask<Staged>(`${storeModel(modelId)}/stage`,
      { body: { nodeIds: [...chosen] } })
    const nameOf = (nodeId: string): string => names.value.get(nodeId) ?? nodeId
    for (const { nodeId, error } of results) {
      if (error !== null) failed(new Error(`${nameOf(nodeId)}: ${error}`))
    }
    const goes = results.filter(({ error }) => error === null).map(({ nodeId }) => nameOf(nodeId))
    if (goes.length > 0) done(`${modelId} is on its way to ${goes.join(', ')}.`)
    onClose()
  }
  return (
    <Dialog title={`Copy ${modelId} to nodes`} onClose={onClose}>
      <fieldset class="options">
        <legend>Which nodes</legend>
        {list.map(({ id, name }) => (
          <label key={id} class="choice">
            <input
              type="checkbox" disabled={there.has(id)} checked={there.has(id) || chosen.has(id)}
              onChange={({ currentTarget }) => {
                const next = new Set(chosen)
                if (currentTarget.checked) next.add(id)
                else next.delete(id)
                setChosen(next)
              }}
            />
            <span>{name}</span>{there.has(id) && <span class="hint">has it</span>}
          </label>
        ))}
      </fieldset>
      <div class="dialog-foot">
        <Button kind="quiet" onClick={onClose}>Cancel</Button>
        <Button kind="main" disabled={chosen.size === 0} onClick={stage}>Copy it</Button>
      </div>
    </Dialog>
  )
}
