import { instances, nodes, transfers, waiting } from '../known.js'
import { here, past, state } from '../link.js'
import { linkTo, route } from '../route.js'
import { useAsk } from '../ui/loading.js'
import { Badge, DiskMeter, Empty, MemoryMeter, Opens, Quoting, RowText, Section } from '../ui/parts.js'
import { Rows } from '../ui/list.js'
import { count, joined, percent } from '../ui/text.js'
import { InstanceList, WaitingRow } from './instance.js'
import { NodePage } from './node.js'
import { JoinDialog, Remedy } from './node-actions.js'
import { Topology } from './topology.js'
import { TransferList } from './transfer.js'
import type { ClusterNode } from '../state.js'

export function ClusterPage () {
  const [id] = route.value.parts
  if (id !== undefined) return <NodePage id={id} />
  return (
    <>
      {nodes.value.length === 1 && (
        <p class="hint">
          A new node? <a href={linkTo('first')}>The first steps</a> name it and let it speak.
        </p>
      )}
      <Attention />
      <Nodes />
      <Running />
      {waiting.value.length > 0 && (
        <Section title="Waiting">
          <Rows
            items={waiting.value} keyOf={([id]) => id} row={([id, one]) => <WaitingRow id={id} one={one} />}
          />
        </Section>
      )}
      {transfers.value.length > 0 && (
        <Section title="Transfers" aside={count(transfers.value.length, 'transfer')}>
          <TransferList list={transfers.value} />
        </Section>
      )}
    </>
  )
}

/** Pause in ms between two requests for findings, which the state does not contain. */
const FINDINGS_MS = 15_000
const WORDS = { error: 'error', warn: 'warning', info: 'note' }

/** Lists problems that need an operator, worst first; renders no section if there are none. */
function Attention () {
  const reasons = nodes.value.flatMap((node) => node.health.reasons.map((reason) => ({ node, reason })))
    .sort((a, b) => a.reason.severity === b.reason.severity ? 0 : a.reason.severity === 'error' ? -1 : 1)
  const { value: all } = useAsk('GET /v1/findings', [here.value], {}, FINDINGS_MS)
  const found = past.value !== null ? [] : all?.findings.filter(({ severity, ended, code }) =>
    severity !== 'info' && !ended && !reasons.some(({ reason }) => reason.code === code)) ?? []
  const failures = state.value.instanceFailures.slice(0, 3)
  if (reasons.length + found.length + failures.length === 0) return null
  return (
    <Section title="Needs attention">
      <ul class="rows">
        {reasons.slice(0, 20).map(({ node, reason }) => (
          <li key={`${node.id} ${reason.code}`} class="row">
            <Badge level={reason.severity}>{WORDS[reason.severity]}</Badge>
            <p class="grow"><a href={linkTo('cluster', node.id)}>{node.name}</a>: {reason.message}</p>
            <Remedy node={node} reason={reason} />
          </li>
        ))}
        {found.slice(0, 20).map(({ code, severity, summary, remedy, subject }) => (
          <li key={`${code} ${subject.join()}`} class="row">
            <Badge level={severity === 'error' ? 'error' : 'warn'}>{WORDS[severity]}</Badge>
            <div class="grow">
              <p>{summary}</p>
              {remedy !== null && <p class="hint"><Quoting text={remedy} /></p>}
            </div>
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
  return (
    <Section title="Nodes" aside={<Opens dialog={<JoinDialog />}>Connect a machine</Opens>}>
      <Topology nodes={nodes.value} state={state.value} instances={instances.value} />
      <Rows
        label="Nodes" items={nodes.value} keyOf={({ id }) => id} rowHeight={92}
        row={(node) => <NodeRow node={node} />}
      />
    </Section>
  )
}

function NodeRow ({ node }: { node: ClusterNode }) {
  const { memory, disk, system, health } = node
  const level = node.live ? health.level : 'error'
  return (
    <>
      <RowText
        hint={joined([
          node.identity?.chipId, system?.accelerators?.map(({ name }) => name).join(', '),
          node.backends.join(', '),
          system?.pcpuUsage == null ? null : `CPU ${percent(system.pcpuUsage)}`,
          system?.temp == null ? null : `${Math.round(system.temp)} °C`,
          system?.sysPower == null ? null : `${Math.round(system.sysPower)} W`
        ])}
      >
        <a href={linkTo('cluster', node.id)}>{node.name}</a>
        {node.master && <Badge>master</Badge>}
        {node.local && <Badge>this page</Badge>}
        {node.drained && <Badge level="warn">drained</Badge>}
        {node.participation === 'management' && <Badge>no models</Badge>}
        <Badge level={level}>{node.live ? level === 'ok' ? 'healthy' : level : 'lost'}</Badge>
      </RowText>
      <div class="meters"><MemoryMeter of={memory} /><DiskMeter of={disk} /></div>
    </>
  )
}

function Running () {
  const list = instances.value
  return (
    <Section title="Running" aside={<a class="button" href={linkTo('models')}>Place a model</a>}>
      {list.length === 0
        ? <Empty title="No model is placed."><a href={linkTo('models')}>Choose one</a></Empty>
        : <InstanceList list={list} />}
    </Section>
  )
}
