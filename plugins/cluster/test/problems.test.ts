import t from 'tap'
import { clusterProblems } from '../host.js'

type Given = Parameters<typeof clusterProblems>[0]

t.test('a node names its removal where a member or its own list tells of it', (t) => {
  const removal = { installId: 'own', fingerprint: 'f', at: '2026-01-01T00:00:00.000Z' }
  const dial = { address: '192.0.2.1:1', reason: 'removed' }
  const rows: [dials: object[], removed: object[], found: RegExp | null][] = [
    [[], [], null], [[], [{ ...removal, installId: 'other' }], null],
    [[dial], [], /member at 192\.0\.2\.1:1\./], [[], [removal], /Reported by its own member list/]
  ]
  for (const [dials, removed, found] of rows) {
    const { node_removed: told } = clusterProblems({
      node: { installId: 'own', version: '1.0.0' },
      network: {
        peers: () => [], dials: () => dials, copies: () => [], quorum: '1',
        members: { current: () => ({ clusterId: 'c', members: [], removed }) }
      }
    } as unknown as Given)
    t.match(told, found)
  }
  t.end()
})
