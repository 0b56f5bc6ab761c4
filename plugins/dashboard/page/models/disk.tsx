import { nodes } from '../known.js'
import { linkTo } from '../route.js'
import { Badge, DiskMeter, Empty, Opens, Section } from '../ui/parts.js'
import { bytes, count } from '../ui/text.js'
import { PurgeDialog } from './purge.js'
import { copiesByNode } from './data.js'
import type { Copied } from './data.js'

const KINDS: Readonly<Record<Copied['kind'], string>> = {
  store: 'in the store', bundled: 'ships with svc', staged: 'copy', cache: 'from the hub',
  receiving: 'arriving'
}

const NAMED = 12

export function DiskSection ({ copies }: { copies: readonly Copied[] }) {
  const places = copiesByNode(copies)
  const disks = new Map(nodes.value.map(({ id, disk }) => [id, disk]))
  const bare = nodes.value.filter(({ id }) => !places.some(({ nodeId }) => nodeId === id))
  return (
    <Section
      title="Copies by node"
      aside={(
        <Opens dialog={(close) => <PurgeDialog modelId={null} onClose={close} />}>Free disk space</Opens>
      )}
    >
      <ul class="rows">
        {places.map(({ nodeId, copies: own }) => (
          <li key={nodeId} class="row">
            <NodeCopies id={nodeId} copies={own} />
            <div class="meters"><DiskMeter of={disks.get(nodeId) ?? null} /></div>
          </li>
        ))}
      </ul>
      {bare.length > 0 && (
        <p class="hint">
          {bare.length > NAMED ? count(bare.length, 'node') : bare.map(({ name }) => name).join(', ')}
          {bare.length === 1 ? ' has ' : ' have '}only what ships with svc.
        </p>
      )}
    </Section>
  )
}

const OPEN = 8

function NodeCopies ({ id, copies }: { id: string, copies: readonly Copied[] }) {
  const size = copies.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  const words = `${count(copies.length, 'copy', 'copies')}, ${bytes(size)}`
  const list = <CopyList copies={copies} by="modelId" />
  return (
    <div class="grow">
      <p class="row-title">
        <a href={linkTo('cluster', id)}>{copies[0]!.nodeName}</a>
        {copies.length <= OPEN && <span class="hint">{words}</span>}
      </p>
      {copies.length > OPEN ? <details><summary>{words}</summary>{list}</details> : list}
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
