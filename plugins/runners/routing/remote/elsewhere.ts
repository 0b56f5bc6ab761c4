import type { Cluster, Section } from '../../../../kernel/index.js'
import type { RunnerStatus } from '../../service.js'
import type { RingInstance } from '../../instances/shapes.js'
import { lends } from '../../instances/shapes.js'
import { isDraining } from '../../instances/document.js'

/** A runner that an instance names on another node which is there. */
export interface RunnerElsewhere {
  readonly nodeId: string
  readonly installId: string
  readonly instanceId: string
  readonly runnerId: string
  readonly modelId: string
  /** Its instance, or its node, takes no new requests. */
  readonly draining: boolean
  /** As that node said last, at most half a second ago; null before it has said anything. */
  readonly status: RunnerStatus | null
}

export interface ElsewhereParts {
  self: { readonly nodeId: string }
  runners: Section<RunnerStatus>
  cluster: Pick<Cluster, 'nodes'>
}

/** The runners of these instances on other live nodes, from the documents that every node holds. */
export function runnersElsewhere (
  { self, runners, cluster }: ElsewhereParts, instances: readonly RingInstance[]
): RunnerElsewhere[] {
  const named = instances.flatMap((ring) => Object.entries(ring.shardAssignments.nodeToRunner)
    .filter(([nodeId]) => nodeId !== self.nodeId && !lends(ring, nodeId))
    .map(([nodeId, runnerId]) => ({ nodeId, runnerId, ring })))
  if (named.length === 0) return []
  const there = new Map(cluster.nodes().filter((node) => node.live && !node.self)
    .map((node) => [node.nodeId, node]))
  const said = statusesOf(runners, new Set(named.map(({ runnerId }) => runnerId)))
  // Neither nodes that are gone nor those that have started anew.
  return named.flatMap(({ nodeId, runnerId, ring }) => {
    const node = there.get(nodeId)
    if (node === undefined) return []
    const { installId, leaving } = node
    const { instanceId, shardAssignments: { modelId } } = ring
    const status = said.get(`${nodeId}/${runnerId}`) ?? null
    const draining = isDraining(ring) || leaving === true
    return [{ nodeId, installId, instanceId, runnerId, modelId, draining, status }]
  })
}

function statusesOf (
  runners: Section<RunnerStatus>, wanted: ReadonlySet<string>
): Map<string, RunnerStatus> {
  const statuses = new Map<string, RunnerStatus>()
  for (const { nodeId, key, value } of runners.entries()) {
    if (wanted.has(key)) statuses.set(`${nodeId}/${key}`, value)
  }
  return statuses
}
