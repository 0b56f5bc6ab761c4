import type { Cluster, Section } from '../../../kernel/index.js'
import type { RunnerStatus } from '../service.js'
import type { Instance } from '../shapes.js'

/** A runner that an instance names on another node which is there. */
export interface RunnerElsewhere {
  readonly nodeId: string
  readonly installId: string
  readonly instanceId: string
  readonly runnerId: string
  readonly modelId: string
  /** As that node said last, at most half a second ago; null before it has said anything. */
  readonly status: RunnerStatus | null
}

export interface ElsewhereParts {
  instances: Section<Instance>
  runners: Section<RunnerStatus>
  cluster: Pick<Cluster, 'resolve'>
}

/** The runners of other live nodes, of one model or of all, from the documents that every node holds. */
export function runnersElsewhere (parts: ElsewhereParts, modelId?: string): RunnerElsewhere[] {
  const seats = [...parts.instances.entries()].flatMap(({ value }) => seatsOf(value, parts.cluster))
    .filter((seat) => modelId === undefined || seat.modelId === modelId)
  if (seats.length === 0) return []
  const statuses = new Map([...parts.runners.entries()].map(({ nodeId, key, value }) =>
    [`${nodeId}/${key}`, value]))
  return seats.map((seat) => ({ ...seat, status: statuses.get(`${seat.nodeId}/${seat.runnerId}`) ?? null }))
}

/** Where an instance runs, apart from this node and from nodes that are gone or have started anew. */
function seatsOf (
  { RingInstance: ring }: Instance, cluster: Pick<Cluster, 'resolve'>
): Omit<RunnerElsewhere, 'status'>[] {
  const { instanceId, shardAssignments: { modelId, nodeToRunner } } = ring
  return Object.entries(nodeToRunner).flatMap(([nodeId, runnerId]) => {
    const node = cluster.resolve(nodeId)
    if (node === undefined || node.self || !node.live || node.nodeId !== nodeId) return []
    return [{ nodeId, installId: node.installId, instanceId, runnerId, modelId }]
  })
}
