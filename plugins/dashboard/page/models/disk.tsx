// Where copies are, node by node, what an eviction would take, and a purge that says first what would go.
import { useState } from 'preact/hooks'
import { linkTo } from '../route.js'
import { Badge, Button, Empty, Meter, Section } from '../ui/parts.js'
import { bytes, count } from '../ui/text.js'
import { nodes } from './live.js'
import { PurgeDialog } from './purge.js'
import type { Copied } from './data.js'

const KINDS: Readonly<Record<Copied['kind'], string>> = {
  store: 'in the store', bundled: 'ships with svc', staged: 'copy', cache: 'from the hub',
  receiving: 'arriving'
}

export function DiskSection ({ copies }: { copies: readonly Copied[] }) {
  const [purges, setPurges] = useState(false)
  const known = new Set(nodes.value.map(({ id }) => id))
  const others = [...new Set(copies.map(({ nodeId }) => nodeId))].filter((id) => !known.has(id))
  const places = [
    ...nodes.value.map(({ id, name, disk }) => ({ id, name, disk })),
    ...others.map((id) => ({ id, name: copies.find(({ nodeId }) => nodeId === id)!.nodeName, disk: null }))
  ]
  return (
    <Section
      title="Copies by node"
      aside={<Button onClick={() => { setPurges(true) }}>Free disk space</Button>}
    >
      <ul class="rows">
        {places.map(({ id, name, disk }) => (
          <li key={id} class="row">
            <NodeCopies id={id} name={name} copies={copies.filter(({ nodeId }) => nodeId === id)} />
            {disk !== null && (
              <div class="meters">
                <Meter label="Disk" {...disk} text={`${bytes(disk.total - disk.used)} free`} />
              </div>
            )}
          </li>
        ))}
      </ul>
      {purges && <PurgeDialog modelId={null} onClose={() => { setPurges(false) }} />}
    </Section>
  )
}

function NodeCopies ({ id, name, copies }: { id: string, name: string, copies: readonly Copied[] }) {
  // What ships with svc lies in the store's list and on the node, and takes the disk once.
  const own = copies.filter(({ kind }) => kind !== 'bundled')
  const ships = new Set(copies.filter(({ kind }) => kind === 'bundled').map(({ modelId }) => modelId))
  const taking = own.filter(({ kind, modelId }) => kind !== 'store' || !ships.has(modelId))
  const size = taking.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  return (
    <div class="grow">
      <p class="row-title">
        <a href={linkTo('cluster', id)}>{name}</a>
        {taking.length > 0 && (
          <span class="hint">{count(taking.length, 'copy', 'copies')}, {bytes(size)}</span>
        )}
      </p>
      {taking.length === 0
        ? <p class="hint">Only what ships with svc.</p>
        : <CopyList copies={taking} by="modelId" />}
    </div>
  )
}

/** Copies in one line each, told by their model or by their node. */
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
