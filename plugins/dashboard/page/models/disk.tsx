import { nameOf, nodes } from '../known.js'
import { linkTo } from '../route.js'
import { Rows } from '../ui/list.js'
import { useAsk } from '../ui/loading.js'
import { Badge, Confirm, DiskMeter, Empty, Opens, Section, Trouble } from '../ui/parts.js'
import { ago, bytes, count } from '../ui/text.js'
import { copiesByNode, type Copied } from './data.js'
import { ask } from '../link.js'
import { done } from '../ui/toast.js'
import type { Replies } from '../../../../docs/reference/replies.js'

const KINDS: Readonly<Record<Copied['kind'], string>> = {
  store: 'in the store', bundled: 'ships with svc', staged: 'copy', cache: 'from the hub',
  receiving: 'arriving'
}

export function DiskSection ({ copies }: { copies: readonly Copied[] }) {
  const disks = new Map(nodes.value.map(({ id, disk }) => [id, disk]))
  return (
    <Section
      title="Copies by node"
      aside={<Opens needs="cluster:write" dialog={<PurgeDialog modelId={null} />}>Free disk space</Opens>}
    >
      <Rows
        items={copiesByNode(copies)} keyOf={({ nodeId }) => nodeId} row={({ nodeId, copies: own }) => (
          <>
            <NodeCopies id={nodeId} copies={own} />
            <div class="meters"><DiskMeter of={disks.get(nodeId) ?? null} /></div>
          </>
        )}
      />
    </Section>
  )
}

/** Up to this many copies of a node are listed at once. */
const OPEN = 8

function NodeCopies ({ id, copies }: { id: string, copies: readonly Copied[] }) {
  const size = copies.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  return (
    <div class="grow">
      <p class="row-title"><a href={linkTo('cluster', id)}>{copies[0]!.nodeName}</a></p>
      <details open={copies.length <= OPEN}>
        <summary>{count(copies.length, 'copy', 'copies')}, {bytes(size)}</summary>
        <CopyList copies={copies} by="modelId" />
      </details>
    </div>
  )
}

export function CopyList ({ copies, by }: { copies: readonly Copied[], by: 'modelId' | 'nodeName' }) {
  if (copies.length === 0) return <Empty title="No node has a copy." />
  const sorted = [...copies].sort((a, b) => a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : 0)
  return (
    <ul class="copies">
      {sorted.map(({ modelId, nodeId, nodeName, kind, sizeBytes, live }) => (
        <li key={`${modelId} ${nodeId} ${kind}`}>
          {by === 'modelId'
            ? <a href={linkTo('models', modelId)}>{modelId}</a>
            : <a href={linkTo('cluster', nodeId)}>{nodeName}</a>}
          <span class="hint">{KINDS[kind]}, {bytes(sizeBytes)}</span>
          {!live && <Badge level="error">node is lost</Badge>}
        </li>
      ))}
    </ul>
  )
}

const ROUTE = 'POST /store/purge-staging'
type NodePurge = Replies[typeof ROUTE]['nodes'][number]

export function PurgeDialog ({ modelId }: { modelId: string | null }) {
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
      disabled={going === 0} onConfirm={purge}
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
  const now = Date.now()
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
