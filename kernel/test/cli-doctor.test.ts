import t from 'tap'
import { checkClocks, checkDiscovery, checkHealth, checkVersions } from '../cli/doctor-cluster.js'
import { judgeDisk } from '../cli/check.js'
import { checkNode } from '../cli/doctor-host.js'
import type { Check } from '../cli/check.js'
import type { NodeRow } from '../cli/cluster-view.js'

const row = (more: Partial<NodeRow> = {}): NodeRow => ({
  nodeId: 'n1', installId: 'i1', name: 'attic', url: null, version: '1.0.0', isMaster: true, isLocal: true,
  live: true, lostForSeconds: null, memoryTotalBytes: null, memoryAvailableBytes: null,
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
  check(checkClocks([]), 'ok', /only one node/)
  check(checkClocks([clock('a', 0.4), clock('b', -0.4)]), 'ok', /2 nodes at most 1 s apart/)
  check(checkClocks([clock('a', 9), clock('b', 0)]), 'warn', /9 s apart: a is ahead of b/)
  check(checkClocks([clock('a', 0), clock('b', 3600)]), 'fail', /3600 s apart: b is ahead of a/)
  check(checkVersions([row(), row({ name: 'barn' })], '1.0.0'), 'ok', /1\.0\.0 on all 2/)
  check(checkVersions([row(), row({ name: 'barn', version: '1.1.0' })], '1.0.0'), 'warn', /barn 1\.1\.0/)
  check(checkVersions([row()], '2.0.0'), 'warn', /this command line 2\.0\.0/)
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
    [{ result: 'ok', message: '0 live nodes report nothing' }])
})
