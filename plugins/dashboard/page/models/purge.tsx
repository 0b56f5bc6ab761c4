import { nameOf } from '../known.js'
import { ask } from '../link.js'
import { Badge, Confirm, Trouble, useAsk, useNow } from '../ui/parts.js'
import { ago, bytes, count } from '../ui/text.js'
import { done } from '../ui/toast.js'
import type { Replies } from '../../../../docs/reference/replies.js'

const ROUTE = 'POST /store/purge-staging'
type NodePurge = Replies[typeof ROUTE]['nodes'][number]

export function PurgeDialog ({ modelId, onClose }: { modelId: string | null, onClose: () => void }) {
  const which = modelId === null ? {} : { modelId }
  const { value, error, again } = useAsk(ROUTE, [modelId], { body: { ...which, dryRun: true } })
  const going = value?.nodes.reduce((sum, { removed }) => sum + removed.length, 0) ?? 0
  const freed = value?.nodes.reduce((sum, { freedBytes }) => sum + freedBytes, 0) ?? 0
  const purge = async (): Promise<boolean> => {
    const { message, nodes } = await ask(ROUTE, { body: which })
    done(message)
    const whole = nodes.every((node) => node.error === null)
    if (!whole) again()
    return whole
  }
  return (
    <Confirm
      title={modelId === null ? 'Free disk space' : `Remove copies of ${modelId}`} danger cancel="Close"
      action={going === 0 ? 'Nothing to remove' : `Remove ${count(going, 'copy', 'copies')}, ${bytes(freed)}`}
      disabled={going === 0} onConfirm={purge} onClose={onClose}
    >
      {error !== null && <Trouble error={error} again={again} />}
      {value === null && error === null && <p class="waiting" role="status">Asking every node…</p>}
      {value !== null && (
        <>
          <p>
            Copies on nodes that nothing uses can go; the store keeps its own. Evictions take them from the
            top of each list when room is needed, and those beyond what is kept at the next occasion.
          </p>
          {value.nodes.map((node) => <NodeOutlook key={node.nodeId} node={node} />)}
        </>
      )}
    </Confirm>
  )
}

function NodeOutlook ({ node }: { node: NodePurge }) {
  const { nodeId, copies = [], removed, skippedInUse, error } = node
  const now = useNow(30_000)
  const whole = new Set(copies.map(({ modelId }) => modelId))
  const partial = [...removed, ...skippedInUse].filter((modelId) => !whole.has(modelId))
  return (
    <section class="outlook" aria-label={nameOf(nodeId)}>
      <h3>{nameOf(nodeId)}</h3>
      {error !== null && <p class="trouble">{error}</p>}
      {copies.length + partial.length === 0 && error === null && <p class="hint">No copies to remove.</p>}
      <ol class="rows">
        {copies.map((copy) => (
          <li key={`${copy.modelId} ${copy.lastUsedEpochSeconds}`} class="row">
            <div class="grow">
              <p>{copy.modelId}</p>
              <p class="hint">
                {bytes(copy.sizeBytes)}
                {copy.freeableBytes < copy.sizeBytes && `, of which ${bytes(copy.freeableBytes)} come free`}
                {' · '}last used {ago(new Date(copy.lastUsedEpochSeconds * 1000).toISOString(), now)}
              </p>
            </div>
            {copy.inUse
              ? <Badge level="ok">in use, stays</Badge>
              : <Badge level="warn">{copy.overBudget ? 'goes, evicted next' : 'goes'}</Badge>}
          </li>
        ))}
        {partial.map((modelId) => (
          <li key={modelId} class="row">
            <p class="grow">{modelId}</p>
            {removed.includes(modelId)
              ? <Badge level="warn">rest of a transfer, goes</Badge>
              : <Badge level="ok">arriving, stays</Badge>}
          </li>
        ))}
      </ol>
    </section>
  )
}
