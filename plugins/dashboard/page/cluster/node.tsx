import { instances, nodes } from '../known.js'
import { linkTo } from '../route.js'
import { useNow } from '../ui/loading.js'
import { Badge, Button, Copy, DiskMeter, Empty, Facts, MemoryMeter, Meter, Section } from '../ui/parts.js'
import { ago, bytes, joined, percent } from '../ui/text.js'
import { InstanceList } from './instance.js'
import { DrainButton, refOf, Remedy, RemoveButton, RestartButton, undrain } from './node-actions.js'
import type { Accelerator, ClusterNode } from '../state.js'

export function NodePage ({ id }: { id: string }) {
  // Also finds the node by install id or name, because its node id changes when it restarts.
  const node = nodes.value.find((one) =>
    one.id === id || one.identity?.nodeInstallId === id || one.name === id)
  if (node === undefined) {
    return (
      <Empty title="No such node is known: it may have started anew.">
        <a href={linkTo('cluster')}>All nodes</a>
      </Empty>
    )
  }
  const own = instances.value.filter(({ nodeIds }) => nodeIds.includes(node.id))
  return (
    <>
      <Section
        title={node.name}
        aside={(
          <>
            {node.drained
              ? (
                  <Button needs="cluster:write" onClick={async () => { await undrain(node) }}>
                    Let it run models again
                  </Button>
                )
              : <DrainButton node={node} running={own.length} />}
            <RestartButton node={node} words="Restart" />
            <RemoveButton kind="danger" words="Remove" name={node.name} id={refOf(node)} />
          </>
        )}
      >
        <p class="row-title">
          <Badge level={node.live ? node.health.level : 'error'}>{node.live ? 'live' : 'lost'}</Badge>
          {node.master && <Badge>master</Badge>}
          {node.drained && <Badge level="warn">drained</Badge>}
          {node.tags.map((tag) => <Badge key={tag}>{tag}</Badge>)}
        </p>
        <NodeFacts node={node} />
        {node.health.reasons.map((reason) => (
          <div key={reason.code} class="row">
            <Badge level={reason.severity}>{reason.code}</Badge>
            <p class="grow">{reason.message}</p>
            <Remedy node={node} reason={reason} />
          </div>
        ))}
      </Section>
      <Section title="What it runs">
        {own.length === 0 ? <Empty title="Nothing is placed here." /> : <InstanceList list={own} />}
      </Section>
    </>
  )
}

function NodeFacts ({ node }: { node: ClusterNode }) {
  const now = useNow()
  const { identity, system, memory, disk } = node
  return (
    <>
      <Facts
        list={[
          ['Address', identity?.apiUrl], ['Machine', identity?.chipId],
          ['System', identity?.osVersion], ['svc', identity?.svcVersion],
          ['Backends', node.backends.join(', ')],
          ['Processor', system?.pcpuUsage == null ? null : percent(system.pcpuUsage)],
          ['Temperature', system?.temp == null ? null : `${Math.round(system.temp)} °C`],
          ['Power', system?.sysPower == null ? null : `${Math.round(system.sysPower)} W`],
          ['Last sign of life', node.lastSeen === null ? null : ago(node.lastSeen, now)],
          ['Node id', <Copy key="id" text={node.id} />],
          ['Install id', identity !== null && <Copy text={identity.nodeInstallId} />]
        ]}
      />
      <div class="meters wide">
        <MemoryMeter of={memory} />
        {(system?.accelerators ?? []).map((one, i) => <AcceleratorMeter key={i} one={one} />)}
        <DiskMeter of={disk} />
      </div>
    </>
  )
}

function AcceleratorMeter ({ one }: { one: Accelerator }) {
  const { name, vramTotalBytes: total, vramUsedBytes: used } = one
  const { utilizationRatio, temperatureCelsius, powerWatts } = one
  const text = joined([
    total === null ? null : `${used === null ? 'an unknown part' : bytes(used)} of ${bytes(total)}`,
    utilizationRatio === null ? null : `busy ${percent(utilizationRatio)}`,
    temperatureCelsius === null ? null : `${Math.round(temperatureCelsius)} °C`,
    powerWatts === null ? null : `${Math.round(powerWatts)} W`
  ])
  return <Meter label={name} used={used ?? 0} total={total ?? 0} text={text} />
}
