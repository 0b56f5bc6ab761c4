/** The verbs for nodes and members, and their rows, which checks and tools of other plugins use too. */
import {
  isVerbError, nameOf, type ClusterState, type NamedNodes, type VerbContext, nearest, offerRemoval, plain,
  showBytes, formatDuration, type AdmittedMember, type Verb
} from '../../../kernel/cli/index.js'
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

export const members: Verb = {
  async run (ctx, [action, ref]) {
    if (action === undefined) return await list(ctx)
    if (action !== 'remove' || ref === undefined) {
      throw ctx.fail(2, 'expected `svc members` or `svc members remove ID`')
    }
    await remove(ctx, ref)
  }
}

async function list ({ client, out }: VerbContext): Promise<void> {
  const body = await client.json<MemberList>('/cluster/members')
  if (out.json) return out.value(body)
  const nameOf = (id: string): string => body.members.find(({ installId }) => installId === id)?.name ?? id
  out.table(['NAME', 'ID', 'NODE', 'LIVE', 'MASTER', 'VERSION', 'RTT', 'ADDRESSES', 'JOINED', 'ADMITTED BY'],
    body.members.map((m) => [m.self ? `${m.name} (this node)` : m.name, m.installId, m.nodeId ?? '-',
      m.live ? 'yes' : 'no', m.master ? 'yes' : '-', m.version ?? '-',
      m.rttMs === null ? '-' : `${m.rttMs.toFixed(1)} ms`, m.addresses.join(' ') || '-', m.joinedAt,
      m.admitted == null ? '-' : plain(`${m.admitted.by[0] ?? '?'} at ${nameOf(m.admitted.node)}`)]))
  for (const { address, state, reason, attempts } of body.dials) {
    if (state !== 'connected' && reason !== null) {
      out.line(`no connection to ${address} after ${attempts} attempts: ${reason}`)
    }
  }
}

async function remove (ctx: VerbContext, ref: string): Promise<void> {
  const { members } = await ctx.client.json<MemberList>('/cluster/members')
  const { installId, name } = findMember(ctx, members, ref)
  const path = `/cluster/members/${encodeURIComponent(installId)}`
  const answer = await ctx.client.json<{ admitted?: AdmittedMember[] }>(path, { method: 'DELETE' })
  if (ctx.out.json) ctx.out.value(answer)
  else {
    ctx.out.line(`removed ${name} (${installId}); to join again, it needs an empty home and a new ` +
      'token: `svc join-token`')
  }
  offerRemoval(ctx.err, answer.admitted)
}

/** Finds a member by node id, name or install id prefix. Throws VerbError: 3 if unknown, 2 if ambiguous. */
function findMember ({ fail }: VerbContext, members: readonly MemberRow[], ref: string): MemberRow {
  const exact = members.filter((m) => m.installId === ref || m.nodeId === ref || m.name === ref)
  const found = exact.length > 0 || ref.length < 4
    ? exact
    : members.filter((m) => m.installId.startsWith(ref))
  if (found.length === 1) return found[0]!
  if (found.length > 1) {
    throw fail(2, `"${ref}" matches ${found.length} members; use an id of \`svc members\`: ${
      found.map((m) => m.installId).join(', ')}`)
  }
  const near = nearest(ref, members.flatMap((m) => [m.name, m.installId]))
  throw fail(3, `no member "${ref}"${near === undefined ? '' : `; did you mean ${near}?`}\n` +
    '  `svc members` lists them')
}

export const nodes: Verb = {
  async run ({ client, out }) {
    const [state, members] = await Promise.all([client.json<ClusterState>('/state'), readMembers(client)])
    const nodes = joinNodes(state, members)
    if (out.json) out.value({ nodes })
    else {
      const gpus = nodes.some(({ accelerators }) => accelerators.length > 0)
      const common = ['NAME', 'NODE', 'URL', 'VERSION', 'MASTER', 'LIVE', 'MEMORY']
      const titles = [...common, ...gpus ? ['GPUS'] : [], 'HEALTH']
      out.table(titles, nodes.map((node) =>
        [node.name ?? '-', node.nodeId ?? '-', node.url ?? (node.isLocal ? client.url : '-'),
          node.version ?? '-', node.isMaster ? 'yes' : '-', liveness(node), memory(node),
          ...gpus ? [node.accelerators.map(gpuText).join('; ') || '-'] : [],
          node.live ? node.health.level : '-']))
    }
  }
}

function liveness ({ live, drained, lostForSeconds }: NodeRow): string {
  if (live) return drained ? 'drained' : 'live'
  return lostForSeconds === null ? 'lost' : `lost ${formatDuration(lostForSeconds)}`
}

/** `NVIDIA H200: 131 GiB of 140 GiB, 50 %, 38 °C, 79 W`; leaves out unknown values. */
function gpuText (gpu: Gpu): string {
  const { name, vramUsedBytes: used, vramTotalBytes: total, utilizationRatio: busy } = gpu
  const { temperatureCelsius: celsius, powerWatts: watts } = gpu
  const facts = [
    used === null || total === null ? [] : `${showBytes(used)} of ${showBytes(total)}`,
    busy === null ? [] : `${Math.round(busy * 100)} %`,
    celsius === null ? [] : `${Math.round(celsius)} °C`, watts === null ? [] : `${Math.round(watts)} W`
  ].flat()
  return plain([name, facts.join(', ')].filter((part) => part !== '').join(': '))
}

function memory ({ memoryAvailableBytes: free, memoryTotalBytes: total }: NodeRow): string {
  return free === null || total === null ? '-' : `${showBytes(free)} free of ${showBytes(total)}`
}
