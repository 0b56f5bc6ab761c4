import { computed } from '@preact/signals'
import { useState } from 'preact/hooks'
import { state } from '../link.js'
import { linkTo, route } from '../route.js'
import { instancesOf, nodesOf, transfersOf } from '../state.js'
import { Badge, Button, Empty, Meter, Progress, Section } from '../ui/parts.js'
import { LongList } from '../ui/list.js'
import { bytes, count, percent, rate, span } from '../ui/text.js'
import { InstanceRow, WaitingRow } from './instance.js'
import { JoinDialog } from './join.js'
import { NodePage } from './node.js'
import { Remedy } from './remedy.js'
import { Topology } from './topology.js'
import type { ClusterNode, Instance, Transfer } from '../state.js'

const nodes = computed(() => nodesOf(state.value))
const instances = computed(() => instancesOf(state.value))
const transfers = computed(() => transfersOf(state.value).filter(({ status }) => status !== 'completed'))

export function ClusterPage () {
  const [id] = route.value.parts
  if (id !== undefined) return <NodePage id={id} nodes={nodes.value} instances={instances.value} />
  return (
    <>
      {nodes.value.length === 1 && (
        <p class="hint">
          A new node? <a href={linkTo('first')}>The first steps</a> name it and let it speak.
        </p>
      )}
      <Attention nodes={nodes.value} />
      <Nodes />
      <Running />
      <Waiting />
      <Transfers list={transfers.value} />
    </>
  )
}

/** Problems that need an operator, worst first; empty without one. */
function Attention ({ nodes }: { nodes: readonly ClusterNode[] }) {
  const reasons = nodes.flatMap((node) => node.health.reasons.map((reason) => ({ node, reason })))
    .sort((a, b) => a.reason.severity === b.reason.severity ? 0 : a.reason.severity === 'error' ? -1 : 1)
  const failures = state.value.instanceFailures.slice(0, 3)
  if (reasons.length === 0 && failures.length === 0) return null
  return (
    <Section title="Needs attention">
      <ul class="rows">
        {reasons.slice(0, 20).map(({ node, reason }) => (
          <li key={`${node.id} ${reason.code}`} class="row">
            <Badge level={reason.severity}>{reason.severity === 'error' ? 'error' : 'warning'}</Badge>
            <div class="grow">
              <p><a href={linkTo('cluster', node.id)}>{node.name}</a>: {reason.message}</p>
            </div>
            <Remedy node={node} reason={reason} />
          </li>
        ))}
        {failures.map((failure) => (
          <li key={`${failure.instanceId} ${failure.recordedAt}`} class="row">
            <Badge level="warn">failed</Badge>
            <div class="grow">
              <p><a href={linkTo('models', failure.modelId)}>{failure.modelId}</a>: {failure.errorMessage}</p>
              <p class="hint">{failure.errorCode} · {new Date(failure.recordedAt).toLocaleString()}</p>
            </div>
          </li>
        ))}
      </ul>
    </Section>
  )
}

function Nodes () {
  const [joins, setJoins] = useState(false)
  const list = nodes.value
  return (
    <Section
      title="Nodes" aside={<Button onClick={() => { setJoins(true) }}>Connect a machine</Button>}
    >
      <Topology nodes={list} state={state.value} instances={instances.value} />
      <LongList
        label="Nodes" items={list} keyOf={({ id }) => id} rowHeight={92}
        row={(node) => <NodeRow node={node} />}
      />
      {joins && <JoinDialog onClose={() => { setJoins(false) }} />}
    </Section>
  )
}

/** `2 × NAME` for several of one kind. */
function acceleratorNames (system: ClusterNode['system']): string {
  const counts = new Map<string, number>()
  for (const { name } of system?.accelerators ?? []) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].map(([name, n]) => n === 1 ? name : `${n} × ${name}`).join(', ')
}

function NodeRow ({ node }: { node: ClusterNode }) {
  const { memory, disk, system, health } = node
  const level = node.live ? health.level : 'error'
  return (
    <>
      <div class="grow">
        <p class="row-title">
          <a href={linkTo('cluster', node.id)}>{node.name}</a>
          {node.master && <Badge>master</Badge>}
          {node.local && <Badge>this page</Badge>}
          {node.drained && <Badge level="warn">drained</Badge>}
          {node.participation === 'management' && <Badge>no models</Badge>}
          <Badge level={level}>{node.live ? level === 'ok' ? 'healthy' : level : 'lost'}</Badge>
        </p>
        <p class="hint">
          {[
            node.identity?.chipId, acceleratorNames(system), node.backends.join(', '),
            system?.pcpuUsage == null ? null : `CPU ${percent(system.pcpuUsage)}`,
            system?.temp == null ? null : `${Math.round(system.temp)} °C`,
            system?.sysPower == null ? null : `${Math.round(system.sysPower)} W`
          ].filter((word) => word != null && word !== '').join(' · ')}
        </p>
      </div>
      <div class="meters">
        {memory !== null && (
          <Meter label="Memory" {...memory} text={`${bytes(memory.used)} of ${bytes(memory.total)}`} />
        )}
        {disk !== null && <Meter label="Disk" {...disk} text={`${bytes(disk.total - disk.used)} free`} />}
      </div>
    </>
  )
}

function Running () {
  const list: readonly Instance[] = instances.value
  const names = new Map(nodes.value.map(({ id, name }) => [id, name]))
  return (
    <Section title="Running" aside={<a class="button" href={linkTo('models')}>Place a model</a>}>
      {list.length === 0
        ? <Empty title="No model is placed."><a href={linkTo('models')}>Choose one</a></Empty>
        : (
            <LongList
              label="Instances" items={list} keyOf={({ instanceId }) => instanceId} rowHeight={72}
              row={(instance) => <InstanceRow instance={instance} names={names} />}
            />
          )}
    </Section>
  )
}

function Waiting () {
  const waiting = Object.entries(state.value.waitingInstances ?? {})
  if (waiting.length === 0) return null
  return (
    <Section title="Waiting">
      <ul class="rows">
        {waiting.map(([id, one]) => <li key={id} class="row"><WaitingRow id={id} one={one} /></li>)}
      </ul>
    </Section>
  )
}

function Transfers ({ list }: { list: readonly Transfer[] }) {
  if (list.length === 0) return null
  const names = new Map(nodes.value.map(({ id, name }) => [id, name]))
  return (
    <Section title="Transfers" aside={count(list.length, 'transfer')}>
      <ul class="rows">
        {list.map((one) => (
          <li key={`${one.nodeId} ${one.modelId}`} class="row">
            <div class="grow">
              <p>{one.modelId} to {names.get(one.nodeId) ?? one.nodeId}</p>
              <p class="hint">
                {one.error ?? [
                  `${bytes(one.done)} of ${bytes(one.total)}`,
                  one.bytesPerSecond === null ? null : rate(one.bytesPerSecond),
                  one.etaMs === null ? null : `${span(one.etaMs)} left`
                ].filter((word) => word !== null).join(' · ')}
              </p>
            </div>
            {one.status === 'failed'
              ? <Badge level="error">failed</Badge>
              : <Progress label={`Transfer of ${one.modelId}`} done={one.done} total={one.total} />}
          </li>
        ))}
      </ul>
    </Section>
  )
}
