import { useState } from 'preact/hooks'
import { linkTo } from '../route.js'
import { state } from '../link.js'
import { Badge, Button, Copy, Empty, Meter, Section, useNow } from '../ui/parts.js'
import { ago, bytes, percent, rate } from '../ui/text.js'
import { InstanceRow } from './instance.js'
import { DrainDialog, RemoveDialog, RestartDialog, undrain } from './node-actions.js'
import { Remedy } from './remedy.js'
import type { Accelerator, ClusterNode, Instance } from '../state.js'

interface NodePageProps { id: string, nodes: readonly ClusterNode[], instances: readonly Instance[] }

export function NodePage ({ id, nodes, instances }: NodePageProps) {
  const [dialog, setDialog] = useState<'drain' | 'restart' | 'remove' | null>(null)
  const now = useNow()
  // Its id changes when it starts anew; the install id and the name stay.
  const node = nodes.find((one) => one.id === id || one.identity?.nodeInstallId === id || one.name === id)
  if (node === undefined) {
    return (
      <Empty title="No such node is known: it may have started anew.">
        <a href={linkTo('cluster')}>All nodes</a>
      </Empty>
    )
  }
  const close = (): void => { setDialog(null) }
  const own = instances.filter(({ nodeIds }) => nodeIds.includes(node.id))
  const names = new Map(nodes.map((one) => [one.id, one.name]))
  return (
    <>
      <Section
        title={node.name}
        aside={(
          <>
            {node.drained
              ? <Button onClick={async () => { await undrain(node) }}>Let it run models again</Button>
              : <Button onClick={() => { setDialog('drain') }}>Drain</Button>}
            <Button onClick={() => { setDialog('restart') }}>Restart</Button>
            <Button kind="danger" onClick={() => { setDialog('remove') }}>Remove</Button>
          </>
        )}
      >
        <p class="row-title">
          <Badge level={node.live ? node.health.level : 'error'}>{node.live ? 'live' : 'lost'}</Badge>
          {node.master && <Badge>master</Badge>}
          {node.drained && <Badge level="warn">drained</Badge>}
          {node.tags.map((tag) => <Badge key={tag}>{tag}</Badge>)}
        </p>
        <Facts node={node} now={now} />
        {node.health.reasons.map((reason) => (
          <div key={reason.code} class="row">
            <Badge level={reason.severity}>{reason.code}</Badge>
            <p class="grow">{reason.message}</p>
            <Remedy node={node} reason={reason} />
          </div>
        ))}
      </Section>
      <Section title="What it runs">
        {own.length === 0
          ? <Empty title="Nothing is placed here." />
          : (
              <ul class="rows">
                {own.map((one) => (
                  <li key={one.instanceId} class="row"><InstanceRow instance={one} names={names} /></li>
                ))}
              </ul>
            )}
      </Section>
      <Links node={node} names={names} />
      {dialog === 'drain' && <DrainDialog node={node} running={own.length} onClose={close} />}
      {dialog === 'restart' && <RestartDialog node={node} onClose={close} />}
      {dialog === 'remove' && <RemoveDialog node={node} onClose={close} />}
    </>
  )
}

function Facts ({ node, now }: { node: ClusterNode, now: number }) {
  const { identity, system, memory, disk } = node
  const facts: [string, string | null | undefined][] = [
    ['Address', identity?.apiUrl], ['Machine', identity?.chipId],
    ['System', identity?.osVersion], ['svc', identity?.svcVersion],
    ['Backends', node.backends.join(', ')],
    ['Processor', system?.pcpuUsage == null ? null : percent(system.pcpuUsage)],
    ['Temperature', system?.temp == null ? null : `${Math.round(system.temp)} °C`],
    ['Power', system?.sysPower == null ? null : `${Math.round(system.sysPower)} W`],
    ['Last sign of life', node.lastSeen === null ? null : ago(node.lastSeen, now)]
  ]
  return (
    <>
      <dl class="facts">
        {facts.filter(([, value]) => value != null && value !== '').map(([name, value]) => (
          <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
        ))}
        <div><dt>Node id</dt><dd><Copy text={node.id} /></dd></div>
        {identity !== null && <div><dt>Install id</dt><dd><Copy text={identity.nodeInstallId} /></dd></div>}
      </dl>
      <div class="meters wide">
        {memory !== null && (
          <Meter label="Memory" {...memory} text={`${bytes(memory.used)} of ${bytes(memory.total)}`} />
        )}
        {(system?.accelerators ?? []).map((one, i) => <AcceleratorMeter key={i} one={one} />)}
        {disk !== null && <Meter label="Disk" {...disk} text={`${bytes(disk.total - disk.used)} free`} />}
      </div>
    </>
  )
}

function AcceleratorMeter ({ one }: { one: Accelerator }) {
  const { name, vramTotalBytes: total, vramUsedBytes: used } = one
  const { utilizationRatio, temperatureCelsius, powerWatts } = one
  const words = [
    total === null ? null : `${used === null ? 'an unknown part' : bytes(used)} of ${bytes(total)}`,
    utilizationRatio === null ? null : `busy ${percent(utilizationRatio)}`,
    temperatureCelsius === null ? null : `${Math.round(temperatureCelsius)} °C`,
    powerWatts === null ? null : `${Math.round(powerWatts)} W`
  ]
  const text = words.filter((word) => word !== null).join(' · ')
  return <Meter label={name} used={used ?? 0} total={total ?? 0} text={text} />
}

function Links ({ node, names }: { node: ClusterNode, names: ReadonlyMap<string, string> }) {
  const sinks = Object.entries(state.value.topology.connections[node.id] ?? {})
  if (sinks.length === 0) return null
  return (
    <Section title="Links">
      <table>
        <thead>
          <tr><th scope="col">To</th><th scope="col">Round trip</th><th scope="col">Measured</th></tr>
        </thead>
        <tbody>
          {sinks.map(([id, [edge]]) => (
            <tr key={id}>
              <td><a href={linkTo('cluster', id)}>{names.get(id) ?? id}</a></td>
              <td>{edge?.rttMs == null ? 'not measured' : `${edge.rttMs.toFixed(1)} ms`}</td>
              <td>{edge?.bytesPerSecond == null ? 'not measured' : rate(edge.bytesPerSecond)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  )
}
