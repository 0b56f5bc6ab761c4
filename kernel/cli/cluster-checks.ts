import { joinNodes } from './cluster-view.js'
import { ok, warn } from './check.js'
import { contributed } from './contributed.js'
import {
  checkHealth, checkListener, checkLost, checkMaster, checkMembers, checkNames, checkVersions
} from './doctor-cluster.js'
import { isVerbError } from './verb.js'
import type { Manifest } from '../api/plugin.js'
import type { Check, CheckContext } from './check.js'
import type { MemberList, NodeRow } from './cluster-view.js'

export interface ClusterChecksInput extends CheckContext {
  manifests: readonly Pick<Manifest, 'checks'>[]
  /** Version of the command line that asks; null where none does. */
  version: string | null
}

export interface ClusterChecks {
  checks: Check[]
  nodes: NodeRow[]
  /** Failed reads, each a sentence with its reason. */
  unknown: string[]
}

/** All of `svc doctor` that a node can be asked for: the kernel's checks and those of the plugins. */
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
    // Only operators may read it, so a refusal is no finding.
    given<Settings>('/config'),
    contributed<Check[]>(manifests, 'checks', { state, look })
  ])
  const members = isVerbError(list) ? null : list
  const nodes = joinNodes(state, members)
  return {
    nodes,
    unknown: [...refused].map((path) => `GET ${path} is not shown without more authority.`),
    checks: [
      checkReady(ready),
      ...checkMaster(state, nodes),
      ...members === null
        ? [noMembers(list), ...checkLost(nodes)]
        : [...checkListener(members), ...checkMembers(members, nodes)],
      checkVersions(nodes, version),
      ...checkNames(nodes),
      ...checkHealth(nodes),
      ...isVerbError(settings) ? [] : checkSettings(settings, state),
      ...own.flat()
    ]
  }
}

function checkReady (answer: unknown): Check {
  if (!isVerbError(answer)) return ok('ready', 'everything set to start is ready')
  const checks = (answer.api?.details?.['checks'] ?? []) as { name: string, ok: boolean, detail: string }[]
  const missing = checks.filter((check) => !check.ok).map(({ name, detail }) => `${name}: ${detail}`)
  const [said] = answer.message.split('\n')
  return warn('ready', missing.join('; ') || said!, 'Wait for it: `svc status --wait`.',
    { code: 'not_ready' })
}

const RESTART = 'restart_needed'
/** Code of a node whose cluster is switched off. */
export const ALONE = 'cluster_off'

/** The parts of GET /config that show whether the applied settings are those of the file. */
interface Settings { file: string, restart_needed?: boolean }

/** Whether somebody changed svc.yaml and the node has not been restarted since; the others are not asked. */
function checkSettings ({ file, restart_needed: changed }: Settings, state: CheckContext['state']): Check[] {
  const { localNodeId: nodeId, nodeIdentities, nodeHealth } = state
  // The node's health reports a change made over the API.
  const told = nodeHealth[nodeId]?.reasons.some(({ code }) => code === RESTART) === true
  if (changed !== true || told) return []
  const name = nodeIdentities[nodeId]?.friendlyName ?? nodeId
  return [warn('settings', `${file} has changed since ${name} started: what it says now is not in force`,
    `Restart ${name}: \`svc restart\`.`,
    { code: RESTART, about: [name], evidence: [{ kind: 'node', nodeId, name }] })]
}

function noMembers (refusal: unknown): Check {
  if (isVerbError(refusal) && refusal.api?.reason === 'plugin_disabled') {
    return ok('members', 'this node is a cluster of one: it has no plugin for more', { code: ALONE })
  }
  return warn('members', 'the members cannot be listed with this credential',
    'Use a token with the authority "operator" (--token), or run this on the node\'s host.',
    { code: 'members_hidden' })
}
