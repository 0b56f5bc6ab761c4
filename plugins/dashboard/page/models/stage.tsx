import { useState } from 'preact/hooks'
import { nameOf, nodes } from '../known.js'
import { ask } from '../link.js'
import { Button, Dialog } from '../ui/parts.js'
import { toggled } from '../ui/text.js'
import { done, failed } from '../ui/toast.js'
import type { Copied } from './data.js'

interface StageProps { modelId: string, copies: readonly Copied[], onClose: () => void }

export function StageDialog ({ modelId, copies, onClose }: StageProps) {
  const [chosen, setChosen] = useState<readonly string[]>([])
  const there = new Set(copies.filter(({ kind }) => kind === 'staged').map(({ nodeId }) => nodeId))
  const list = nodes.value.filter(({ live }) => live)
  const stage = async (): Promise<void> => {
    const { nodes: results } = await ask('POST /store/models/{model_id}/stage',
      { params: [modelId], body: { nodeIds: chosen } })
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
              type="checkbox" disabled={there.has(id)} checked={there.has(id) || chosen.includes(id)}
              onChange={({ currentTarget }) => { setChosen(toggled(chosen, id, currentTarget.checked)) }}
            />
            <span>{name}</span>{there.has(id) && <span class="hint">has it</span>}
          </label>
        ))}
      </fieldset>
      <div class="dialog-foot">
        <Button kind="quiet" onClick={onClose}>Cancel</Button>
        <Button kind="main" disabled={chosen.length === 0} onClick={stage}>Copy it</Button>
      </div>
    </Dialog>
  )
}
