/** Rows that describe nodes and members; verbs, checks and tools of other plugins use them too. */
import { isVerbError, nameOf } from '../../../kernel/cli/index.js'
import type { ClusterState, NamedNodes, VerbContext } from '../../../kernel/cli/index.js'
import type { DialReport, FromSchema, Gpu } from '../../../kernel/index.js'
import type { clusterRoutes } from '../routes.js'

type Listed = FromSchema<typeof clusterRoutes.members.reply>['members'][number]

export interface MemberRow extends Listed {
  rttMs: number | null
  /** Who admitted the member; null for the first member and for members that an older release admitted. */
  admitted?: { node: string, by: string[], authorities?: string[] } | null
}

export interface MemberList {
  clusterId: string, members: MemberRow[], dials: DialReport[]
  removed: { installId: string, fingerprint?: string, at?: string }[]
}

/** One node as `svc nodes` and `svc status` show it. */
export interface NodeRow {
  nodeId: string | null, installId: string | null, name: string | null, url: string | null
  version: string | null, isMaster: boolean, isLocal: boolean, live: boolean
  /** Seconds since a lost node was last seen; null for a live node, or one never seen. */
  lostForSeconds: number | null
  memoryTotalBytes: number | null, memoryAvailableBytes: number | null
  accelerators: Gpu[]
  drained: boolean
  health: ClusterState['nodeHealth'][string], capabilities: string[]
}

/** The members; null if the node refuses the request, for example for lack of authority. */
export async function readMembers (client: VerbContext['client']): Promise<MemberList | null> {
  try {
    return await client.json<MemberList>('/cluster/members')
  } catch (error) {
    if (isVerbError(error) && error.status !== undefined) return null
    throw error
  }
}

export function joinNodes (state: ClusterState, members: MemberList | null): NodeRow[] {
  const shown = new Set(Object.keys(state.nodeIdentities))
  const known = (member: MemberRow): boolean => member.nodeId !== null && shown.has(member.nodeId)
  const rows = [
    ...[...shown].map((id) => fromState(id, state, members)),
    ...(members?.members ?? []).filter((member) => !known(member)).map(neverSeen)
  ]
  return rows.sort((a, b) => (a.name ?? '').localeCompare(b.name ?? '', 'en', { numeric: true }))
}

function fromState (nodeId: string, state: ClusterState, members: MemberList | null): NodeRow {
  const identity = state.nodeIdentities[nodeId]!
  const isLocal = state.localNodeId === nodeId
  const age = secondsSinceSeen(nodeId, state)
  const member = members?.members.find((one) => one.nodeId === nodeId)
  const live = isLocal || (member?.live ?? state.topology?.nodes?.includes(nodeId) ?? true)
  const memory = state.nodeMemory?.[nodeId]
  return {
    nodeId, installId: identity.nodeInstallId ?? member?.installId ?? null, name: identity.friendlyName,
    url: identity.apiUrl, version: identity.svcVersion, isMaster: state.masterNodeId === nodeId, isLocal,
    live, lostForSeconds: live ? null : age, memoryTotalBytes: memory?.ramTotal.inBytes ?? null,
    memoryAvailableBytes: memory?.ramAvailable.inBytes ?? null,
    accelerators: state.nodeSystem?.[nodeId]?.accelerators ?? [],
    drained: Object.hasOwn(state.drainedNodes ?? {}, identity.nodeInstallId ?? ''),
    health: state.nodeHealth[nodeId] ?? { level: 'ok', reasons: [] },
    capabilities: state.nodeCapabilities[nodeId] ?? []
  }
}

/** Compares times on the answering node's clock; that node's own entry in `lastSeen` is the current time. */
function secondsSinceSeen (nodeId: string, { lastSeen, localNodeId }: ClusterState): number | null {
  const [now, then] = [lastSeen?.[localNodeId], lastSeen?.[nodeId]].map((at) => Date.parse(at ?? ''))
  const age = (now! - then!) / 1000
  return Number.isFinite(age) ? Math.max(0, Math.round(age)) : null
}

/** The row of a member that is missing from the state because it was not live in this session. */
function neverSeen (member: MemberRow): NodeRow {
  return {
    nodeId: member.nodeId, installId: member.installId, name: member.name, url: null,
    version: member.version, isMaster: member.master, isLocal: member.self, live: member.live,
    lostForSeconds: null, memoryTotalBytes: null, memoryAvailableBytes: null, accelerators: [],
    drained: false, health: { level: 'ok', reasons: [] }, capabilities: []
  }
}

/** The remedy text for a lost member: start the node again or remove it. */
export function startOrRemove (installId: string, name: string | null = null): string {
  const dev = /^node\d+$/.test(name ?? '') ? `, or \`svc dev start ${name}\` for a node of \`svc dev\`` : ''
  return `Start it with \`svc up\`${dev}; if it will not return: \`svc members remove ${installId}\`.`
}

/** Resolves ids, names and `local` to node ids. Throws VerbError: 3 if unknown, 2 if ambiguous. */
export function findNodes (ctx: VerbContext, state: NamedNodes, refs: readonly string[]): string[] {
  const all = Object.entries(state.nodeIdentities)
  return [...new Set(refs.map((ref) => {
    if (ref === 'local') return state.localNodeId
    const found = all.filter(([nodeId, { friendlyName, nodeInstallId }]) =>
      [nodeId, nodeInstallId, friendlyName].includes(ref))
    if (found.length === 1) return found[0]![0]
    if (found.length > 1) {
      const ids = found.map(([nodeId]) => nodeId).join(', ')
      throw ctx.fail(2, `"${ref}" matches ${found.length} nodes; use an id: ${ids}`)
    }
    throw ctx.fail(3, `there is no node "${ref}"; the nodes are: ${
      all.map(([nodeId]) => nameOf(state, nodeId)).join(', ')}`)
  }))]
}
