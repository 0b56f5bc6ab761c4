import { useState } from 'preact/hooks'
import { nameOf, nodes } from '../known.js'
import { ask } from '../link.js'
import { Confirm, Tick } from '../ui/parts.js'
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
  }
  return (
    <Confirm
      title={`Copy ${modelId} to nodes`} action="Copy it" disabled={chosen.length === 0} onConfirm={stage}
      onClose={onClose}
    >
      <fieldset class="options">
        <legend>Which nodes</legend>
        {list.map(({ id, name }) => (
          <Tick
            key={id} disabled={there.has(id)} checked={there.has(id) || chosen.includes(id)}
            onChange={(on) => { setChosen(toggled(chosen, id, on)) }}
          >
            <span>{name}</span>{there.has(id) && <span class="hint">has it</span>}
          </Tick>
        ))}
      </fieldset>
    </Confirm>
  )
}
