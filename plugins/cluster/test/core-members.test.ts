import { createHash } from 'node:crypto'
import t from 'tap'
import { grantableAuthorities } from '../identity/admission.js'
import { memberCommands, nextVoters, union } from '../members/membership.js'
import { coreCluster, failure, selfOf, type CoreCluster, type CoreNode } from './core-kit.js'
import type { ClusterCore } from '../cluster.js'
import type { MemberList, MemberRecord, Removed } from '../members/member.js'

const AT = '2026-01-01T00:00:00.000Z'
const keyOf = (installId: string): string => createHash('sha256').update(installId).digest('base64url')
const member = (installId: string, address = 'h:1', nodeId: string | null = null): MemberRecord => ({
  installId, fingerprint: keyOf(installId), name: installId, addresses: [address], joinedAt: AT, nodeId
})
const removal = (installId: string): Removed => ({ installId, fingerprint: keyOf(installId), at: AT })
const names = ({ members, removed }: MemberList): string =>
  `${members.map((m) => `${m.installId}@${m.addresses.join()}`).join(' ')} - ` +
  removed.map((r) => r.installId).join(' ')

t.test('a file and a document are put together', (t) => {
  const file = (ids: string[], removed: string[] = []): MemberList => ({
    clusterId: 'c',
    members: ids.map((id) => { const { nodeId: _, ...rest } = member(id, 'old:1'); return rest }),
    removed: removed.map(removal)
  })
  const check = (
    what: string, ours: MemberList, members: MemberRecord[], removed: string[], expected: string
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
  const odd = (change: object): MemberRecord => ({ ...member('z'), ...change })
  const wrong: [string, MemberRecord][] = [
    ['no record', null as unknown as MemberRecord],
    ['17 addresses', odd({ addresses: Array<string>(17).fill('h:1') })],
    ['an id that is none', odd({ installId: '../z' })],
    ['the key of another', odd({ fingerprint: keyOf('a') })],
    ['a removed key', odd({ fingerprint: keyOf('b') })],
    ['another key for a known id', odd({ installId: 'a', fingerprint: keyOf('z') })]
  ]
  for (const [what, record] of wrong) {
    check(`${what} is left out alone`, file(['a', 'b', 'c']), [record, member('c')], ['b'],
      'a@old:1 c@h:1 - b')
  }
  const crowd = Array.from({ length: 600 }, (_, n) => member(`m${n}`))
  t.equal(union(file(['a']), crowd, [removal('m0')]).members.length, 512, 'no more than a file takes')
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

/** Numbers of the members that each running node has. */
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

t.test('who admitted a member is known everywhere, bounds it and never changes', async (t) => {
  const c = await coreCluster(t, { nodes: 2 })
  const [one, two] = c.nodes as [CoreNode, CoreNode]
  const by = { by: ['app_2', 'app_1'], authorities: ['read', 'operator'] }
  const three = await c.join(two, by)
  await membersAre(c, '123')
  const admitted = { node: two.installId, ...by }
  const known = (): unknown[] => c.nodes.map(({ members }) => members.find(three.installId)?.admitted)
  t.same(known(), [admitted, admitted, admitted])
  t.equal(one.members.find(one.installId)!.admitted, undefined, 'nobody has admitted the first')
  // A later claim of more authorities has no effect.
  const record = one.core.membership.records().find((r) => r.installId === three.installId)!
  const claims = { ...record, name: 'renamed', admitted: { node: 'x', by: ['operator'] } }
  await c.settled(three.core.commands.run(memberCommands.put, claims))
  await c.until('the new name', () => c.nodes.every(({ members }) =>
    members.find(three.installId)?.name === 'renamed'))
  t.same(known(), [admitted, admitted, admitted])
  // A member that was admitted with two authorities cannot pass on more, even as operator.
  const four = await c.join(three, { by: ['operator'] })
  await membersAre(c, '1234')
  t.same(one.members.find(four.installId)?.admitted,
    { node: three.installId, by: ['operator'], authorities: ['read', 'operator'] })
  for (const id of ['app_1', 'app_2']) {
    t.match(one.core.service.admittedBy(id), [{ installId: three.installId, name: 'renamed' }], id)
  }
  t.match(one.core.service.admittedBy(three.installId), [{ name: 'n4' }])
  t.same(one.core.service.admittedBy('app_3'), [])
  for (const [{ installId, name }, expected] of [
    [four, ['read']], [three, ['read']], [two, ['read', 'approve']]
  ] as const) {
    t.same(grantableAuthorities(one.members.find(installId), ['read', 'approve']), expected, name)
  }
})

t.test('a list of the previous release, without who admitted, takes nothing away', (t) => {
  const admitted = { node: 'a', by: ['app_1'], authorities: ['read'] }
  const list = { clusterId: 'c', members: [{ ...member('a'), admitted }], removed: [] }
  const { nodeId: _, ...bare } = member('a')
  t.same(union(list, [bare], []).members[0]!.admitted, admitted, 'its document')
  t.same(union(list, [], [], { members: [bare], removed: [] }).members[0]!.admitted, admitted, 'its list')
  t.same(union({ ...list, members: [bare] }, [], [], list).members[0]!.admitted, undefined,
    'nor does another node add who did')
  t.end()
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
  t.strictSame(c.told('NodeRemoved'), [{ nodeId: three.node.nodeId, name: 'n3' }], 'told once')
  t.equal(c.events.find((e) => e.kind === 'NodeRemoved')?.node, master.name, 'by the master')
  t.strictSame(c.told('NodeTimedOut'), [], 'it is not missed')
  for (const node of [one, two]) {
    t.equal(node.members.isRemoved(selfOf(three).fingerprint), true)
    t.equal(node.core.directory.resolve('n3'), undefined)
    t.notOk([...node.core.replicas.entries()].some((e) => e.installId === three.installId))
  }
  t.ok(c.dropped.includes(three.installId))
  const again = await failure(c.settled(two.core.membership.admit(selfOf(three), { by: ['operator'] })))
  t.match(again, { reason: 'join_refused', status: 403 })
  c.kill(three)
  c.restart(three)
  await c.run(30_000)
  t.strictSame(ids(c)['n1'], ['1', '2'])
  t.equal(one.peers().length, 1)
  c.kill(three)
  const four = await c.join(one)
  await membersAre(c, '124')
  c.kill(four)
  await c.agreed([one, two])
  await c.settled(one.core.membership.remove(four.installId))
  c.restart(four)
  await c.run(20_000)
  t.strictSame(ids(c)['n1'], ['1', '2'], 'nor does one that was away meanwhile')
})

t.test('a removal holds on every node at once, whatever else the list says', async (t) => {
  const prepare = ({ commands }: ClusterCore): void => {
    commands.handle('test.plant', (args) => {
      for (const [key, value] of Object.entries(args as object)) commands.write(key, value)
    })
  }
  const c = await coreCluster(t, { nodes: 5, prepare })
  const master = await c.agreed()
  const [one, two, apart, out] = c.others(master) as [CoreNode, CoreNode, CoreNode, CoreNode]
  const many = { ...member('z'), addresses: Array<string>(17).fill('h:1') }
  const records = { 'member/z': many, 'member/y': null, 'member/x': member('w'), 'removed/v': { at: 1 } }
  await c.settled(one.core.commands.run('test.plant', records))
  await c.agreed()
  c.cut([master], [apart])
  await c.settled(one.core.membership.remove(out.installId))
  t.equal(one.members.find(out.installId), undefined, 'it holds where it is answered')
  await c.run(2000)
  for (const node of [master, one, two, apart]) {
    t.equal(node.members.isRemoved(selfOf(out).fingerprint), true, node.name)
    t.notOk(node.peers().some((p) => p.installId === out.installId), 'its link is closed')
  }
  const told = master.lines.filter((line) => line.includes('is skipped'))
  t.equal(told.length, 3, 'one line for each skipped entry: z, y and v')
})

t.test('what a member may say about members', async (t) => {
  const c = await coreCluster(t, { nodes: 3 })
  const [one, two] = c.nodes as [CoreNode, CoreNode, CoreNode]
  const put = async (record: object): Promise<unknown> =>
    await c.settled(two.core.commands.run(memberCommands.put, record))
  const record = (n: CoreNode): MemberRecord =>
    one.core.membership.records().find((r) => r.installId === n.installId)!
  const refusals: [string, object, object][] = [
    ['17 addresses', { ...member('z'), addresses: Array<string>(17).fill('h:1') },
      { reason: 'invalid_request', status: 400, details: { param: 'addresses' } }],
    ['no record', {}, { reason: 'invalid_request', status: 400 }],
    ['a node id that is none', { ...member('z'), nodeId: 7 },
      { reason: 'invalid_request', details: { param: 'nodeId' } }],
    ['another key for a member', { ...record(one), fingerprint: keyOf('z') },
      { reason: 'join_refused', details: { why: 'taken' } }],
    ['the key of a member for another id', { ...record(one), installId: 'z' },
      { reason: 'join_refused', details: { why: 'taken' } }]
  ]
  for (const [what, args, expected] of refusals) t.match(await failure(put(args)), expected, what)
  const before = record(one)
  await put({ ...before, name: 'other', addresses: ['evil:1'] })
  t.strictSame(record(one), before, 'about a member only itself')
  await put({ ...record(two), name: 'new' })
  t.equal(record(two).name, 'new')
  for (const bad of [null, {}, { ...removal('z'), at: 1 }]) {
    t.match(await failure(c.settled(two.core.commands.run(memberCommands.remove, bad))),
      { reason: 'invalid_request', status: 400 })
  }
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

t.test('a node that stops says so, also over a link that is made after that', async (t) => {
  const c = await coreCluster(t, { nodes: 3 })
  const [one, two, three] = c.nodes as [CoreNode, CoreNode, CoreNode]
  await c.agreed()
  const leaves = (at: CoreNode): boolean => at.core.directory.resolve('n3')?.leaving === true
  c.cut([three], [one])
  three.core.leave()
  t.equal(three.core.service.resolve('local')?.leaving, true)
  await c.until('the linked one to know', () => leaves(two))
  t.notOk(leaves(one), 'nobody told the other one')
  c.heal()
  await c.until('both to know', () => leaves(one) && leaves(two))
  c.kill(three)
  await c.run(1000)
  t.ok(leaves(one) && leaves(two))
  c.restart(three)
  await c.until('it to be back', () => [one, two].every((n) => n.core.directory.resolve('n3')?.live === true))
  t.notOk(leaves(one) || leaves(two), 'until it starts anew')
})
