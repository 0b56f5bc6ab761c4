import { count, fail, isVerbError, ok, formatDuration, warn } from '../../../kernel/cli/index.js'
import { joinNodes, startOrRemove } from '../../cluster/cli/nodes.js'
import { splitOf } from './split.js'
import type { DialReport, Manifest } from '../../../kernel/index.js'
import type { Check, CheckContext, ClusterState, CheckData, VerbError } from '../../../kernel/cli/index.js'
import type { MemberList, NodeRow } from '../../cluster/cli/nodes.js'

export interface ClusterChecksInput extends CheckContext {
  manifests: readonly Pick<Manifest, 'checks'>[]
  /** Version of the asking command line; null if no command line asks. */
  version: string | null
}

export interface ClusterChecks {
  checks: Check[]
  nodes: NodeRow[]
  /** A sentence for each fact that could not be read, with the reason. */
  unknown: string[]
}

/** Runs the plugins' parts of `svc doctor` or `svc status`, in order. */
export async function contributed<T> (
  manifests: readonly Pick<Manifest, 'checks' | 'status'>[], kind: 'checks' | 'status', given: CheckContext
): Promise<T[]> {
  const parts = manifests.flatMap((manifest) => Object.values(manifest[kind] ?? {}))
  return await Promise.all(parts.map(async ({ load }) =>
    await ((await load()).default as { run (given: CheckContext): Promise<T> }).run(given)))
}

/** All checks of `svc doctor` that a node can answer: those of the cluster and of the plugins. */
export async function clusterChecks (
  { state, look: given, manifests, version }: ClusterChecksInput
): Promise<ClusterChecks> {
  const refused = new Set<string>()
  const look: CheckContext['look'] = async <T>(path: string) => {
    const answer = await given<T>(path)
    if (isVerbError(answer) && (answer.status === 401 || answer.status === 403)) refused.add(path)
    return answer
  }
  const [ready, list, settings, own] = await Promise.all([
    look('/readyz'),
    look<MemberList>('/cluster/members'),
    // Only operators may read the config, so a refusal is not reported.
    given<Settings>('/config'),
    contributed<Check[]>(manifests, 'checks', { state, look })
  ])
  const members = isVerbError(list) ? null : list
  const nodes = joinNodes(state, members)
  return {
    nodes,
    unknown: [...refused].map((path) => `GET ${path} needs more authority.`),
    checks: [
      checkReady(ready),
      ...checkMaster(state, nodes),
      ...members === null
        ? [noMembers(list), ...lostNodeChecks(nodes)]
        : [...checkListener(members), ...checkMembers(members, nodes)],
      checkVersions(nodes, version),
      ...checkNames(nodes),
      ...checkHealth(nodes), ...drainedNotes(state, nodes),
      ...isVerbError(settings) ? [] : checkSettings(settings, state),
      ...own.flat()
    ]
  }
}

export interface ReadyCheck { name: string, ok: boolean, detail: string }

export const checksIn = ({ api }: VerbError): ReadyCheck[] => (api?.details?.['checks'] ?? []) as ReadyCheck[]

function checkReady (answer: unknown): Check {
  if (!isVerbError(answer)) return ok('ready', 'all configured parts are ready')
  const missing = checksIn(answer).filter(({ ok }) => !ok).map(({ name, detail }) => `${name}: ${detail}`)
  const [said] = answer.message.split('\n')
  return warn('ready', missing.join('; ') || said!, 'Wait for it: `svc status --wait`.',
    { code: 'not_ready' })
}

const RESTART = 'restart_needed'
export const CLUSTER_OFF = 'cluster_off'

/** Fields of GET /config: the config file, and whether it differs from the running settings. */
interface Settings { file: string, restart_needed?: boolean }

/** Whether svc.yaml changed without a restart of this node; other nodes are not checked. */
function checkSettings ({ file, restart_needed: changed }: Settings, state: CheckContext['state']): Check[] {
  const { localNodeId: nodeId, nodeIdentities, nodeHealth } = state
  // Skip a change made over the API, which the node's health already reports.
  const told = nodeHealth[nodeId]?.reasons.some(({ code }) => code === RESTART) === true
  if (changed !== true || told) return []
  const name = nodeIdentities[nodeId]?.friendlyName ?? nodeId
  return [warn('settings', `${file} has changed since ${name} started; the changes are not in effect`,
    `Restart ${name}: \`svc restart\`.`,
    { code: RESTART, about: [name], evidence: [{ kind: 'node', nodeId, name }] })]
}

function noMembers (refusal: unknown): Check {
  if (isVerbError(refusal) && refusal.api?.reason === 'plugin_disabled') {
    return ok('members', 'a cluster of one node: the cluster plugin is disabled', { code: CLUSTER_OFF })
  }
  return warn('members', 'the members cannot be listed with this credential',
    'Use a token with the authority "operator" (--token), or run this on the node\'s host.',
    { code: 'members_hidden' })
}

/** Clock differences in seconds: above WARN they are reported; above FAIL tokens and times are wrong. */
const SKEW_WARN_SECONDS = 5
const SKEW_FAIL_SECONDS = 60

export function checkMaster (state: ClusterState, nodes: readonly NodeRow[]): Check[] {
  const master = nodes.find((node) => node.isMaster)
  const { term, quorum, liveNodes, knownNodes } = state.cluster ??
    { term: 0, quorum: 'ok', liveNodes: nodes.length, knownNodes: nodes.length }
  const numbers = `${liveNodes} of ${knownNodes} nodes live`
  const lost = quorum === 'lost'
  const split = splitOf(state, nodes)
  const missing = nodes.find(({ live, installId }) => !live && installId !== null)
  const start = 'Start the missing nodes with `svc up`; remove one that will not come back: ' +
    `\`svc members remove ${missing?.installId ?? 'ID'}\`.`
  const deciding = lost
    ? fail('quorum', `the quorum is lost: ${numbers}`, start, { code: 'no_quorum' })
    : ok('quorum', `ok: ${numbers}`)
  const elect = lost ? start
    : 'An election takes a few seconds; if it takes longer, `svc doctor` shows the cause.'
  const leading = state.masterNodeId === null
    ? fail('master', 'no master is known', elect, { code: lost ? 'no_quorum' : 'no_master' })
    : ok('master', `${master?.name ?? state.masterNodeId} in term ${term}`, nodeTold(master))
  return [
    // Without a quorum there is no master, so the cause comes first.
    ...lost ? [deciding, leading] : [leading, deciding],
    ...split === null ? [] : [fail('partition', split,
      'Fix the network between the nodes; `svc doctor` shows which dial fails and why.',
      { code: 'partition' })]
  ]
}

function nodeTold (node: Pick<NodeRow, 'name' | 'nodeId'> | undefined): CheckData {
  if (node === undefined) return {}
  const { nodeId } = node
  const name = node.name ?? nodeId ?? 'a node'
  return { about: [name], evidence: nodeId === null ? [] : [{ kind: 'node', nodeId, name }] }
}

/** One check per other member: live, or the reason why it is unreachable. */
export function checkMembers (list: MemberList, nodes: readonly NodeRow[]): Check[] {
  // This node was removed from the cluster, which its health reports; checks of other members would mislead.
  if (list.dials.some(({ reason }) => reason === 'removed')) return []
  const members = list.members.filter((member) => !member.self).map((member): Check => {
    const name = `member ${member.name}`
    const node = nodes.find(({ installId }) => installId === member.installId)
    const told = nodeTold({ name: member.name, nodeId: member.nodeId ?? node?.nodeId ?? null })
    if (member.live) {
      return ok(name, `live${member.rttMs === null ? '' : `, ${member.rttMs.toFixed(1)} ms away`}`,
        { code: 'node_live', ...told })
    }
    const lost = node?.lostForSeconds ?? null
    const since = lost === null ? 'not seen in this session' : `lost for ${formatDuration(lost)}`
    const tried = list.dials.filter(({ installId, address }) =>
      installId === member.installId || (installId === null && member.addresses.includes(address)))
    return fail(name, [since, ...tried.map(describeDial)].join('; '),
      startOrRemove(member.installId, member.name), { code: 'node_lost', ...told })
  })
  return [...members, ...strangers(list)]
}

/** One failed check per lost node, for callers without the member list. */
export function lostNodeChecks (nodes: readonly NodeRow[]): Check[] {
  return nodes.filter(({ live }) => !live).map((node) => {
    const { lostForSeconds: lost } = node
    const since = lost === null ? 'not seen in this session' : `lost for ${formatDuration(lost)}`
    return fail(`member ${node.name ?? node.nodeId ?? ''}`, since,
      startOrRemove(node.installId ?? 'ID', node.name), { code: 'node_lost', ...nodeTold(node) })
  })
}

function describeDial ({ address, reason, attempts }: DialReport): string {
  return `${address}: ${reason ?? 'no answer yet'} (${attempts} attempts)`
}

/** Addresses from settings or discovery at which no member answers. */
function strangers ({ dials, members }: MemberList): Check[] {
  const own = new Set(members.flatMap((member) => member.addresses))
  const silent = dials.filter(({ installId, state, reason, address }) =>
    installId === null && state !== 'connected' && reason !== null && !own.has(address))
  return silent.map((dial) => warn(`address ${dial.address}`, describeDial(dial),
    'It comes from cluster.peers or from discovery. If there is no member, remove it from ' +
    'cluster.peers; otherwise run `svc doctor` on that machine.', { code: 'address_silent' }))
}

export function checkListener ({ members }: MemberList): Check[] {
  const own = members.find((member) => member.self)
  if (own === undefined || own.addresses.length === 0) return []
  const open = own.addresses.filter((address) => !/^(127\.|\[::1\]|localhost)/.test(address))
  const only = ': only nodes on this machine can join; svc join-token makes it reachable for others'
  return [ok('members listener', `at ${own.addresses.join(', ')}${open.length > 0 ? '' : only}`)]
}

/** `own`: version of the asking command line; null if no command line asks. */
export function checkVersions (nodes: readonly NodeRow[], own: string | null): Check {
  // A member's version is unknown until this node has connected to it since its own start.
  const seen = nodes.filter(({ version }) => version !== null && version !== '')
  const all = new Set([...own === null ? [] : [own], ...seen.map((node) => node.version)])
  const where = `${seen.length > 1 ? 'all ' : ''}${count(seen.length, 'node')}`
  if (all.size <= 1) return ok('versions', `${[...all][0] ?? 'unknown'} on ${where}`)
  const list = seen.map((node) => `${node.name ?? node.nodeId ?? 'a node'} ${node.version ?? ''}`)
  return warn('versions', `${list.join(', ')}${own === null ? '' : `; this command line ${own}`}`,
    'Update all nodes to the same version, one after the other.', { code: 'version_mismatch' })
}

/** Live nodes with the same name: a command with that name could mean either. */
export function checkNames (nodes: readonly NodeRow[]): Check[] {
  const names = nodes.filter(({ live }) => live).map(({ name }) => name).filter((name) => name !== null)
  const twice = new Set(names.filter((name, i) => names.indexOf(name) !== i))
  return [...twice].map((name) => {
    const ids = nodes.filter((node) => node.live && node.name === name)
      .map(({ nodeId }) => nodeId ?? 'unknown')
    return warn('names', `${ids.length} nodes have the same name ${name}: ${ids.join(' and ')}`,
      'Rename one of them: `svc config set name NAME` at that node, then restart it.',
      { code: 'name_twice', about: [name, ...ids] })
  })
}

export function checkHealth (nodes: readonly NodeRow[]): Check[] {
  const live = nodes.filter((node) => node.live)
  const reasons = live.flatMap((node) => node.health.reasons.map((reason): Check => {
    const make = (reason.severity ?? node.health.level) === 'error' ? fail : warn
    return make(`health of ${node.name ?? node.nodeId ?? 'a node'}`, `${reason.message} [${reason.code}]`,
      reason.remediation, { code: reason.code, ...nodeTold(node) })
  }))
  return reasons.length > 0 ? reasons : [ok('health', `no problem at ${count(live.length, 'live node')}`)]
}

/** Draining is intended, but explains an absence of placements. */
const drainedNotes = ({ drainedNodes = {} }: ClusterState, nodes: readonly NodeRow[]): Check[] =>
  nodes.filter(({ drained }) => drained).map((node): Check => {
    const [name, at] = [node.name ?? node.nodeId ?? 'a node', drainedNodes[node.installId ?? '']?.since]
    const evidence = at === undefined ? [] : [{ kind: 'time', at } as const]
    return {
      ...ok(`drain of ${name}`,
        `drained${at === undefined ? '' : ` since ${at}`}: it takes no new instances, ` +
        'and those that it had move to other nodes',
        { ...nodeTold(node), code: 'node_drained', note: true, evidence }),
      remedy: `To let it run models again: \`svc undrain ${name}\`.`
    }
  })

/** By how many seconds a node's clock is ahead of this machine's clock. */
export interface ClockReading { name: string, aheadSeconds: number }

/** Checks the clocks of two or more nodes for differences. */
export function checkClocks (readings: readonly ClockReading[]): Check {
  if (readings.length < 2) return ok('clocks', 'no clock of another node to compare with')
  const sorted = [...readings].sort((a, b) => a.aheadSeconds - b.aheadSeconds)
  const [slow, fast] = [sorted[0]!, sorted.at(-1)!]
  const apart = fast.aheadSeconds - slow.aheadSeconds
  const numbers = `${readings.length} nodes at most ${Math.max(apart, 1).toFixed(0)} s apart`
  if (apart < SKEW_WARN_SECONDS) return ok('clocks', numbers)
  const make = apart < SKEW_FAIL_SECONDS ? warn : fail
  return make('clocks', `${numbers}: ${fast.name} is ahead of ${slow.name}`,
    'Synchronise both machines by NTP: `timedatectl set-ntp true`.',
    { code: 'clock_skew', about: [fast.name, slow.name] })
}

/** Whether discovery on the local network is on, and whether it would work on this machine. */
export function checkDiscovery (on: boolean | null, problem: string | null): Check {
  const known = 'addresses come from tokens and cluster.peers'
  if (on === false) return ok('discovery', `off (cluster.discovery): ${known}`)
  const setting = on === null ? 'the setting cannot be read' : 'on (cluster.discovery)'
  return problem === null
    ? ok('discovery', `${setting}, multicast works here`)
    : warn('discovery', `${setting}, but multicast does not work here: ${problem}`,
        'Nodes still find each other by their tokens; else list addresses under cluster.peers.',
        { code: 'discovery_blocked' })
}
