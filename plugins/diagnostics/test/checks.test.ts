import t from 'tap'
import { factOf, judgeDisk, lookedAt, warn } from '../../../kernel/cli/index.js'
import {
  checkClocks, checkDiscovery, checkHealth, checkNames, checkVersions, clusterChecks
} from '../checks/cluster.js'
import { checkNode } from '../checks/host.js'
import type { Check, CheckContext, ClusterState as State } from '../../../kernel/cli/index.js'
import type { NodeRow } from '../../cluster/cli/nodes.js'

const row = (more: Partial<NodeRow> = {}): NodeRow => ({
  nodeId: 'n1', installId: 'i1', name: 'attic', url: null, version: '1.0.0', isMaster: true, isLocal: true,
  live: true, lostForSeconds: null, memoryTotalBytes: null, memoryAvailableBytes: null, accelerators: [],
  drained: false,
  health: { level: 'ok', reasons: [] }, capabilities: [], ...more
})

t.test('what each number means', async (t) => {
  const check = ({ result, message }: Check, expected: string, words: RegExp): void => {
    t.equal(result, expected, message)
    t.match(message, words)
  }
  check(checkNode('20.20.2', '>=20.19'), 'ok', /Node 20\.20\.2/)
  check(checkNode('20.19.0', '>=20.19'), 'ok', /20\.19/)
  check(checkNode('22.0.0', '>=20.19'), 'ok', /22/)
  check(checkNode('20.18.3', '>=20.19'), 'fail', /older than >=20\.19/)
  check(checkNode('18.20.0', '>=20.19'), 'fail', /older/)
  const gib = 2 ** 30
  check(judgeDisk(20 * gib, 100 * gib), 'ok', /20\.0 GiB free of 100 GiB/)
  check(judgeDisk(9 * gib, 100 * gib), 'warn', /9\.0 GiB/)
  check(judgeDisk(2 * gib, 100 * gib), 'fail', /2\.0 GiB/)
  const clock = (name: string, aheadSeconds: number): { name: string, aheadSeconds: number } =>
    ({ name, aheadSeconds })
  check(checkClocks([clock('a', 0.4), clock('b', -0.4)]), 'ok', /2 nodes at most 1 s apart/)
  check(checkClocks([clock('a', 9), clock('b', 0)]), 'warn', /9 s apart: a is ahead of b/)
  check(checkClocks([clock('a', 0), clock('b', 3600)]), 'fail', /3600 s apart: b is ahead of a/)
  check(checkVersions([row(), row({ name: 'barn' })], '1.0.0'), 'ok', /1\.0\.0 on all 2/)
  check(checkVersions([row(), row({ name: 'barn', version: '1.1.0' })], '1.0.0'), 'warn', /barn 1\.1\.0/)
  check(checkVersions([row()], '2.0.0'), 'warn', /this command line 2\.0\.0/)
  t.same(checkNames([row(), row({ name: 'barn' }), row({ name: 'barn', live: false })]), [])
  check(checkNames([row(), row({ nodeId: 'other' })])[0]!, 'warn', /2 nodes have the same name .* and other/)
  check(checkDiscovery(true, null), 'ok', /on .*works here/)
  check(checkDiscovery(true, 'EPERM'), 'warn', /does not work here: EPERM/)
  check(checkDiscovery(false, null), 'ok', /off/)
  check(checkDiscovery(null, null), 'ok', /cannot be read/)
})

t.test('a node\'s reasons keep their severity; those of a lost node do not count', async (t) => {
  const reason = (severity?: string): object => ({ code: 'x', message: 'm', remediation: 'r', severity })
  const health = { level: 'error', reasons: [reason('warn'), reason('error'), reason()] } as NodeRow['health']
  t.same(checkHealth([row({ health })]).map((check) => check.result), ['warn', 'fail', 'fail'])
  t.match(checkHealth([row({ health, live: false })]),
    [{ result: 'ok', message: 'no problem at 0 live nodes' }])
})

t.test('a check as a fact', async (t) => {
  const lost = warn('member barn', 'lost for 5 s', 'Start it.', { code: 'node_lost', about: ['barn'] })
  t.strictSame(factOf(lost), {
    level: 'warn', code: 'node_lost', text: 'Member barn: lost for 5 s.', about: ['barn'], evidence: [],
    remedy: 'Start it.'
  })
  t.match(factOf({ name: 'staging disk', result: 'ok', message: 'Fine.', remedy: null }),
    { code: 'staging_disk', text: 'Staging disk: Fine.' })
})

const identity = (friendlyName: string): object => ({ friendlyName, svcVersion: '1.0.0', apiUrl: null })
const state = {
  masterNodeId: null, localNodeId: 'n1', nodeHealth: {}, nodeCapabilities: {},
  nodeIdentities: { n1: identity('attic'), n2: identity('barn') },
  lastSeen: { n1: '2026-01-01T00:01:00Z', n2: '2026-01-01T00:00:00Z' }, topology: { nodes: ['n1'] },
  cluster: { term: 3, quorum: 'lost', stale: false, partition: true, knownNodes: 2, liveNodes: 1 }
} as unknown as State

const refusal = (status: number, error: object): unknown => lookedAt(status, JSON.stringify({ error }))

t.test('a cluster is judged by what a node answers, with a code for each finding', async (t) => {
  const detail = { checks: [{ name: 'master', ok: false, detail: 'none is known' }] }
  const look = (async (path: string) => path === '/readyz'
    ? refusal(503, { message: 'Not ready.', code: 503, reason: 'not_ready', details: detail })
    : refusal(403, { message: 'No.', code: 403, reason: 'forbidden' })) as CheckContext['look']
  const own = { run: async (given: CheckContext) => {
    await given.look('/mine')
    return [warn('mine', 'odd', 'Mend it.', { code: 'mine_odd' })]
  } }
  const manifests = [{ checks: { mine: { summary: '', load: async () => ({ default: own }) } } }]
  const { checks, unknown } = await clusterChecks({ state, look, manifests, version: null })
  t.strictSame(checks.filter(({ result }) => result !== 'ok').map(({ code }) => code),
    ['not_ready', 'no_quorum', 'no_quorum', 'members_hidden', 'node_lost', 'mine_odd'])
  t.match(checks.find(({ code }) => code === 'node_lost'), { name: 'member barn', message: 'lost for 1m',
    about: ['barn'], evidence: [{ kind: 'node', nodeId: 'n2', name: 'barn' }],
    remedy: /^Start it with `svc up`; if/ })
  const nodeIdentities = { n1: identity('node1'), n2: identity('node2') }
  const dev = { ...state, nodeIdentities } as unknown as State
  const { checks: ofDev } = await clusterChecks({ state: dev, look, manifests, version: null })
  t.match(ofDev.find(({ code }) => code === 'node_lost')?.remedy,
    /`svc up`, or `svc dev start node2` for a node/)
  t.match(unknown, [/\/cluster\/members needs more authority/, /\/mine/])
})
