import t from 'tap'
import { nextVoters, union } from '../cluster/membership.js'
import { coreCluster, failure, selfOf } from './cluster-core-kit.js'
import type { Membership, Removed } from '../cluster/identity/index.js'
import type { CoreCluster, CoreNode } from './cluster-core-kit.js'
import type { MemberRecord } from '../cluster/membership.js'

const AT = '2026-01-01T00:00:00.000Z'
const member = (installId: string, address = 'h:1', nodeId: string | null = null): MemberRecord => ({
  installId, fingerprint: `key of ${installId}`, name: installId, addresses: [address], joinedAt: AT, nodeId
})
const removal = (installId: string): Removed => ({ installId, fingerprint: `key of ${installId}`, at: AT })
const names = ({ members, removed }: Membership): string =>
  `${members.map((m) => `${m.installId}@${m.addresses.join()}`).join(' ')} - ` +
  removed.map((r) => r.installId).join(' ')

t.test('a file and a document are put together', (t) => {
  const file = (ids: string[], removed: string[] = []): Membership => ({
    clusterId: 'c',
    members: ids.map((id) => { const { nodeId: _, ...rest } = member(id, 'old:1'); return rest }),
    removed: removed.map(removal)
  })
  const check = (
    what: string, ours: Membership, members: MemberRecord[], removed: string[], expected: string
  ): void => {
    const both = union(ours, members, removed.map(removal))
    t.equal(names(both), expected, what)
    t.equal(both.clusterId, 'c', 'the id stays')
    t.notOk(both.members.some((m) => 'nodeId' in m), 'a file has no node ids')
    t.strictSame(union(both, members, removed.map(removal)), both, 'once more changes nothing')
  }
  check('nothing new', file(['a']), [], [], 'a@old:1 - ')
  check('a new one', file(['b']), [member('a')], [], 'a@h:1 b@old:1 - ')
  check('newer addresses', file(['a', 'b']), [member('b', 'new:2', 'n')], [], 'a@old:1 b@new:2 - ')
  check('removed in the document', file(['a', 'b']), [member('a')], ['b'], 'a@h:1 - b')
  check('removed in the file', file(['a'], ['b']), [member('b')], [], 'a@old:1 - b')
  check('removed on both sides', file(['a'], ['b']), [], ['c', 'b'], 'a@old:1 - b c')
  t.end()
})

t.test('voters follow the members one by one', (t) => {
  const check = (voters: string, members: string, master: string, expected: string | null): void => {
    const list = (text: string): string[] => text === '' ? [] : text.split(' ')
    const next = nextVoters(list(voters), { members: list(members), live: list(members) }, master)
    t.equal(next === null ? null : next.join(' '), expected, `${voters} -> ${members}`)
  }
  check('a b', 'a b', 'a', null)
  check('b a', 'a b', 'a', null)
  check('a', 'a b c', 'a', 'a b')
  check('a b', 'a b c', 'a', 'a b c')
  check('a b c', 'a b', 'a', 'a b')
  check('a b c', 'a d', 'a', 'a b c d')
  check('a b', 'b', 'a', null)
  check('', 'a', 'a', 'a')
  t.end()
})

/** Numbers of the members that each running node knows. */
const ids = (c: CoreCluster): Record<string, string[]> => Object.fromEntries(c.nodes.filter((n) => n.running)
  .map((n) => [n.name, n.members.current().members.map((m) => m.installId.slice(-1))]))

/** Waits until each running node has exactly these members, by number. */
async function membersAre (c: CoreCluster, expected: string): Promise<void> {
  await c.until(`members ${expected}: ${JSON.stringify(ids(c))}`, () =>
    Object.values(ids(c)).every((list) => list.join('') === expected))
}

t.test('whoever joins is known everywhere, with the id of its start', async (t) => {
  const c = await coreCluster(t, { nodes: 3 })
  const joined = await c.join(c.at(1))
  await membersAre(c, '1234')
  await c.agreed()
  for (const { core } of c.nodes) {
    t.strictSame(core.membership.records().map((r) => r.nodeId), c.nodes.map((n) => n.node.nodeId))
    t.equal(core.directory.resolve(joined.name)?.nodeId, joined.node.nodeId)
    t.equal(core.control.get('cluster/id'), c.at(0).members.current().clusterId)
  }
  const old = joined.node.nodeId
  c.kill(joined)
  await c.agreed()
  t.match(c.at(0).core.directory.resolve('n4'), { live: false, nodeId: old })
  c.restart(joined)
  await c.agreed()
  await c.until('its new id', () =>
    c.nodes.every(({ core }) => core.membership.records()[3]?.nodeId === joined.node.nodeId))
  t.not(joined.node.nodeId, old)
})

t.test('a member that is removed never comes back', async (t) => {
  const c = await coreCluster(t, { nodes: 3 })
  const [one, two, three] = c.nodes as [CoreNode, CoreNode, CoreNode]
  const refused = async (who: string, expected: object): Promise<void> => {
    t.match(await failure(c.settled(one.core.membership.remove(who))), expected)
  }
  await refused('nobody', { reason: 'node_not_found', status: 404 })
  await refused(one.installId, { reason: 'member_self', status: 409 })
  await c.agreed()
  c.forget()
  await c.settled(one.core.membership.remove(three.installId))
  await c.until('two members', () => [one, two].every((n) => n.members.current().members.length === 2))
  const master = await c.agreed([one, two])
  t.strictSame(c.told('NodeRemoved'), [{ nodeId: three.node.nodeId }], 'told once')
  t.equal(c.events.find((e) => e.kind === 'NodeRemoved')?.node, master.name, 'by the master')
  t.strictSame(c.told('NodeTimedOut'), [], 'it is not missed')
  for (const node of [one, two]) {
    t.equal(node.members.isRemoved(selfOf(three).fingerprint), true)
    t.equal(node.core.directory.resolve('n3'), undefined)
    t.notOk([...node.core.replicas.entries()].some((e) => e.installId === three.installId))
  }
  t.ok(c.dropped.some((line) => line === `${three.installId} removed`))
  const again = await failure(c.settled(two.core.membership.admit(selfOf(three))))
  t.match(again, { reason: 'join_refused', status: 403 })
  c.kill(three)
  c.restart(three)
  await c.run(30_000)
  t.strictSame(ids(c)['n1'], ['1', '2'])
  t.equal(one.peers().length, 1)
})

t.test('a member that was removed while it was away stays out', async (t) => {
  const c = await coreCluster(t, { nodes: 3 })
  const [one, two, three] = c.nodes as [CoreNode, CoreNode, CoreNode]
  c.kill(three)
  await c.agreed()
  await c.settled(one.core.membership.remove(three.installId))
  c.restart(three)
  await c.run(20_000)
  await c.agreed([one, two])
  t.strictSame(ids(c)['n1'], ['1', '2'])
  t.equal(one.peers().length, 1)
})

t.test('what both sides of a split decided about members holds after it', async (t) => {
  const c = await coreCluster(t, { nodes: 5 })
  const all = [...c.nodes]
  const [one, two] = all as [CoreNode, CoreNode]
  const left = [one, two]
  const right = all.filter((n) => !left.includes(n))
  c.cut(left, right)
  await c.agreed(left)
  await c.agreed(right)
  const six = await c.join(one)
  c.cut([six], right)
  const seven = await c.join(right[0]!)
  c.cut([seven], [...left, six])
  t.strictSame(ids(c)['n1'], ['1', '2', '3', '4', '5', '6'])
  t.strictSame(ids(c)['n3'], ['1', '2', '3', '4', '5', '7'])
  await c.settled(one.core.membership.remove(right[2]!.installId))
  await c.settled(right[0]!.core.membership.remove(two.installId))
  c.heal()
  const stay = c.nodes.filter((n) => n !== two && n !== right[2])
  await c.until('both lists together', () =>
    stay.every((n) => n.members.current().members.map((m) => m.installId.slice(-1)).join('') === '13467'))
  await c.agreed(stay)
  for (const node of stay) t.equal(node.members.current().removed.length, 2)
  await c.until('the same in the document', () => {
    const keys = [...stay[0]!.core.control.entries()].map(([key]) => key)
    return keys.filter((key) => key.startsWith('removed/')).length === 2 &&
      keys.filter((key) => key.startsWith('member/')).length === 5
  })
  t.ok(stay.includes(six) && stay.includes(seven))
})

t.test('with a majority the voters follow the members', async (t) => {
  const c = await coreCluster(t, { nodes: 4, quorum: 'majority' })
  const voters = (n: number): string[] => c.at(n).core.control.voters().map((id) => id.slice(-1)).sort()
  await c.until('four voters', () => c.nodes.every((_, n) => voters(n).join('') === '1234'))
  const master = await c.agreed()
  const [out] = c.others(master)
  await c.settled(master.core.membership.remove(out!.installId))
  const left = c.nodes.filter((n) => n !== out)
  await c.until('three voters', () => left.every(({ core }) => core.control.voters().length === 3))
  c.kill(master)
  await c.agreed(left.filter((n) => n !== master))
  t.pass('two of three elect')
})
