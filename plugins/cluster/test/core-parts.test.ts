import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { Channels } from '../links/channels.js'
import { Directory, type DirectoryOptions, type LinkedNode } from '../members/directory.js'
import { clusterTiming, DEFAULT_TIMING } from '../election/timing.js'
import { Bandwidth } from '../links/bandwidth.js'
import { addressesOf, mayOpen } from '../identity/addresses.js'
import { needsRemoteListener } from '../open.js'
import { readHardState, writeHardState } from '../driver.js'
import { writeJoinToken } from '../identity/join-tokens.js'
import { COMMAND_HEADER, commandId } from '../host.js'
import { memberOf, readCaller, setMember, writeCaller } from '../../../kernel/http/forwarded.js'
import { fittingTasks } from '../../../kernel/state/source.js'
import { baseState, type NodeFacts, type StateInput } from '../../../kernel/state/state.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { failure } from './core-kit.js'
import type { MemberList } from '../members/member.js'
import type { Caller } from '../../../kernel/api/plugin.js'
import type { MemberRequest } from '../../../kernel/api/services.js'

t.test('the times of the election follow two settings', (t) => {
  const check = (beat: number, vote: number, expected: Partial<typeof DEFAULT_TIMING>): void => {
    t.match(clusterTiming({ heartbeat_ms: beat, election_timeout_ms: vote }), expected, `${beat}/${vote}`)
  }
  check(2000, 3000, DEFAULT_TIMING)
  check(1000, 3000, {
    heartbeat: 1000, silence: 3000, sticky: 1250, stall: 750, settle: 100, campaign: 3000, vote: 1000
  })
  check(2000, 1500, { silence: 6000, campaign: 1500, preVote: 250, vote: 500, grace: 500, backoff: 75 })
  check(100, 150, {
    heartbeat: 100, silence: 300, settle: 20, backoff: 20, backoffSpread: 50, command: 10_000
  })
  t.throws(() => clusterTiming({ heartbeat_ms: 0, election_timeout_ms: 3000 }), RangeError)
  t.throws(() => clusterTiming({ heartbeat_ms: 2000, election_timeout_ms: NaN }), RangeError)
  t.end()
})

const linked = (n: number, name = `name${n}`): LinkedNode =>
  ({ installId: `install${n}`, nodeId: `node${n}`, name, apiUrl: null })

function directory (more: Partial<DirectoryOptions> = {}): Directory {
  const record = (n: number, name?: string): ReturnType<DirectoryOptions['members']>[number] => ({
    ...linked(n, name), fingerprint: '', addresses: [], joinedAt: '', nodeId: n === 3 ? null : `node${n}`
  })
  return new Directory({
    self: () => linked(1, 'twin'),
    linked: () => [linked(2)],
    members: () => [record(4, 'twin'), record(3), record(2), record(1, 'twin')],
    status: () => ({
      liveNodes: ['install1', 'install2'], leader: { sid: 's', term: 1, master: 'install2', boot: 1 }
    }),
    clock: { now: () => 5000, mono: () => 5000 },
    wokeAt: () => -Infinity,
    ...more
  })
}

t.test('a node is found by any of its names', (t) => {
  const nodes = directory()
  const check = (ref: string, expected: string | undefined): void => {
    t.equal(nodes.resolve(ref)?.installId, expected, `"${ref}"`)
  }
  check('local', 'install1')
  check('install1', 'install1')
  check('node1', 'install1')
  check('node2', 'install2')
  check('name2', 'install2')
  check('install3', 'install3')
  check('name3', 'install3')
  check('twin', undefined)
  check('node4', 'install4')
  check('', undefined)
  check('nobody', undefined)
  t.strictSame(nodes.nodes().map((n) => [n.installId, n.self, n.live, n.master]), [
    ['install1', true, true, false], ['install2', false, true, true],
    ['install3', false, false, false], ['install4', false, false, false]
  ], 'itself first, the others by name')
  t.equal(nodes.resolve('install3')?.nodeId, 'install3', 'a node that never was here has its install id only')
  t.end()
})

t.test('who is linked and silent is not live, and what it said last is kept', (t) => {
  const nodes = directory({ status: () => ({ liveNodes: ['install1'], leader: null }) })
  t.match(nodes.resolve('install2'), { live: false, master: false, nodeId: 'node2' })
  nodes.recordIdentity({ ...linked(3), nodeId: 'its second start', apiUrl: 'http://x' })
  t.match(nodes.resolve('install3'), { live: false, nodeId: 'its second start', apiUrl: 'http://x' })
  t.strictSame([3, 1, 2].map((n) => nodes.seenAt(`install${n}`)), [5000, 5000, undefined])
  nodes.forget('install3')
  t.equal(nodes.seenAt('install3'), undefined)
  t.equal(nodes.nodeIdOf('install3'), 'install3')
  t.equal(nodes.nodeIdOf('nobody'), null)
  nodes.recordIdentity(linked(9))
  t.equal(nodes.nodeIdOf('install9'), 'node9', 'also of one that is no member any more')
  t.end()
})

t.test('the id of a command', async (t) => {
  const uuid = '0F8FAD5B-D9CB-469F-A165-70867728950E'
  t.equal(commandId(uuid), uuid.toLowerCase(), 'one id however it is written')
  t.match(commandId(undefined), /^[0-9a-f-]{36}$/)
  t.not(commandId(undefined), commandId(undefined))
  for (const wrong of ['', 'x', `${uuid}0`, uuid.slice(1), uuid.replaceAll('-', '')]) {
    t.match(await failure((async () => commandId(wrong))()), {
      reason: 'invalid_request', details: { issues: [{ path: COMMAND_HEADER }] }
    }, `"${wrong}"`)
  }
})

t.test('who asked is passed on whole, or not at all', async (t) => {
  for (const caller of [
    { id: 'tok_ä', mode: 'direct', authorities: new Set(['read', 'invoke']) },
    { id: 'phone', mode: 'paired', authorities: new Set() },
    { id: 'r', mode: 'relay', authorities: new Set(['operator']) }
  ] satisfies Caller[]) t.strictSame(readCaller(writeCaller(caller)), caller)
  const wrong: [string, string | string[] | undefined][] = [
    ['nothing', undefined], ['empty', ''], ['no JSON', '{'], ['null', 'null'], ['a list', '[]'],
    ['a text', '"x"'],
    ['twice', [writeCaller({ id: 'a', mode: 'direct', authorities: new Set() })]],
    ['no id', '{"mode":"direct","authorities":[]}'],
    ['an empty id', '{"id":"","mode":"direct","authorities":[]}'],
    ['an id of another type', '{"id":7,"mode":"direct","authorities":[]}'],
    ['an unknown mode', '{"id":"a","mode":"root","authorities":[]}'],
    ['no authorities', '{"id":"a","mode":"direct"}'],
    ['authorities of another type', '{"id":"a","mode":"direct","authorities":"operator"}'],
    ['an authority of another type', '{"id":"a","mode":"direct","authorities":["read",7]}']
  ]
  for (const [what, header] of wrong) {
    const refused = await failure((async () => readCaller(header))())
    t.match(refused, { reason: 'unauthenticated', status: 401 }, what)
  }
})

t.test('whose socket it is', (t) => {
  const [mine, other] = [{}, {}]
  setMember(mine, 'a')
  t.strictSame([memberOf(mine), memberOf(other)], ['a', undefined])
  setMember(mine, undefined)
  t.equal(memberOf(mine), undefined)
  t.end()
})

t.test('channels', (t) => {
  const sent: unknown[] = []
  const dropped: unknown[] = []
  const none = (): void => {}
  const channels = new Channels({
    send: (to, body) => { sent.push([to, body]); return to === 'there' },
    broadcast: (body) => { sent.push(body); return 2 },
    dropped: { add: (from, channel, err) => { dropped.push([from, channel, err === undefined]) } }
  })
  const heard: unknown[] = []
  const channel = channels.open<number>('a', (from, message) => { heard.push([from, message]) })
  t.throws(() => channels.open('a', none), /"a" is open already/)
  t.equal(channel.send('there', 1), true)
  t.equal(channel.send('away', 2), false)
  t.equal(channel.broadcast(3), 2)
  t.strictSame(sent, [['there', { channel: 'a', message: 1 }], ['away', { channel: 'a', message: 2 }],
    { channel: 'a', message: 3 }])
  channels.open('fails', () => { throw new Error('no') })
  channels.open('cannot read', () => false)
  t.equal(channels.receive('x', { channel: 'a', message: 1 }), true)
  t.equal(channels.receive('x', { channel: 'fails' }), true)
  t.equal(channels.receive('x', { channel: 'cannot read' }), true)
  t.equal(channels.receive('x', { channel: 'of another version' }), true)
  for (const wrong of [null, undefined, 7, 'a', {}, { channel: 7 }]) {
    t.equal(channels.receive('x', wrong), false)
  }
  channel.close()
  channels.receive('x', { channel: 'a', message: 2 })
  t.strictSame(heard, [['x', 1]])
  t.strictSame(dropped, [['x', 'fails', false], ['x', 'cannot read', true]])
  t.end()
})

t.test('a promise is kept on the disk', (t) => {
  const home = mkdtempSync(join(tmpdir(), 'svc-promise-'))
  t.teardown(() => { rmSync(home, { recursive: true, force: true }) })
  const path = join(home, 'promise.json')
  const record = { term: 7, votedFor: 'a', boot: 3 }
  t.equal(readHardState(path), null)
  t.equal(writeHardState(path, record), true)
  t.strictSame(readHardState(path), record)
  t.equal(writeHardState(join(home, 'nowhere', 'promise.json'), record), false, 'a disk that refuses')
  t.strictSame([readHardState(null), writeHardState(null, record)], [null, true], 'in memory only')
  for (const text of ['{', '{"format":1}', '{"format":1,"term":-1,"votedFor":null,"boot":0}']) {
    writeFileSync(path, text)
    t.throws(() => readHardState(path), { name: 'HomeError', message: /move it away/ }, text)
  }
  mkdirSync(join(home, 'folder'))
  t.equal(writeHardState(join(home, 'folder'), record), false)
  t.end()
})

t.test('when other machines have to reach the members\' listener', (t) => {
  const at = (host: string, configured?: string): boolean => mayOpen({ host, port: 1 }, configured)
  t.strictSame(['127.0.0.1', '127.1.2.3', '::1', 'localhost'].map((host) => at(host)), Array(4).fill(true))
  t.strictSame(['0.0.0.0', '::', '192.0.2.1'].map((host) => at(host)), Array(3).fill(false), 'it is open')
  t.equal(at('127.0.0.1', '127.0.0.1'), false, 'svc.yaml wants it so')

  const member = (installId: string, ...addresses: string[]): object => ({ installId, addresses })
  const asks = (
    { members = [], invited = false, join }: { members?: object[], invited?: boolean, join?: string }
  ): boolean => needsRemoteListener({
    installId: 'me', join, joinTokens: { awaitsRemote: invited },
    members: { current: () => ({ clusterId: 'c', removed: [], members: members as MemberList['members'] }) }
  })
  const ticket = (...seeds: string[]): string => writeJoinToken({
    clusterId: 'c', seeds, exp: 1,
    fingerprint: `${'f'.repeat(42)}A`, id: 'i'.repeat(22), secret: 's'.repeat(22)
  })
  t.equal(asks({ members: [member('me', '192.0.2.1:2'), member('other', '127.0.0.1:2', '[::1]:2')] }), false)
  t.equal(asks({ members: [member('me'), member('other', '127.0.0.1:2', '192.0.2.9:2')] }), true)
  t.equal(asks({ members: [member('other', 'attic.lan:2')] }), true)
  t.equal(asks({ members: [member('other', 'localhost:2')] }), false)
  t.equal(asks({ invited: true }), true)
  t.equal(asks({ join: '127.0.0.1:2' }), false)
  t.equal(asks({ join: '192.0.2.9:2' }), true)
  t.equal(asks({ join: ticket('127.0.0.1:2') }), false, 'also one that has expired: the home may be a member')
  t.equal(asks({ join: ticket('192.0.2.9:2') }), true)
  t.throws(() => asks({ join: 'svcjoin1_x' }), /is truncated/)

  t.strictSame(addressesOf({ host: '127.0.0.1', port: 2 }, undefined), ['127.0.0.1:2'])
  t.strictSame(addressesOf({ host: '0.0.0.0', port: 2 }, 'attic.lan:3'), ['attic.lan:3'])
  t.strictSame(addressesOf({ host: '0.0.0.0', port: 0 }, undefined), [], 'it does not listen yet')
  t.end()
})

t.test('links are measured by one end, now and then', async (t) => {
  const clock = manualClock()
  const asked: string[] = []
  let busy = false
  const request = async (to: string, { path }: MemberRequest): Promise<never> => {
    asked.push(`${to} ${path}`)
    if (busy) throw new Error('busy')
    return { status: 200, headers: {}, body: Readable.from([Buffer.alloc(1024)]) } as never
  }
  const measuring = new Bandwidth({ self: 'b', clock, random: () => 0.5, request })
  measuring.up('a')
  measuring.up('c')
  await clock.advance(10_000)
  t.strictSame(asked, ['c /cluster/probe'], 'the smaller id measures')
  t.equal(measuring.bytesPerSecond('a'), null)
  busy = true
  await clock.advance(30 * 60_000)
  t.equal(asked.length, 2, 'again after half an hour')
  measuring.down('c')
  await clock.advance(60 * 60_000)
  t.equal(asked.length, 2, 'not when the link is gone')
  t.equal(measuring.bytesPerSecond('c'), null)
  measuring.up('c')
  measuring.close()
  await clock.advance(60 * 60_000)
  t.equal(asked.length, 2)
})

t.test('of more tasks than the others are told, those that run are told first', (t) => {
  const task = (status: string, second: number): object =>
    ({ Inference: { status, createdAt: new Date(second * 1000).toISOString(), modelId: 'ü'.repeat(100) } })
  const tasks = Object.fromEntries(Array.from({ length: 400 }, (_, i): [string, object] =>
    [`t${i}`, task(i % 10 === 0 ? 'Running' : 'Complete', i)]))
  t.equal(fittingTasks(tasks, 1e6), tasks)
  const told = fittingTasks(tasks, 20_000) as Record<string, object>
  t.ok(Buffer.byteLength(JSON.stringify(told)) <= 20_000)
  const running = Object.keys(tasks).filter((_, i) => i % 10 === 0)
  t.strictSame(running.filter((id) => told[id] === undefined), [], 'all that run')
  t.ok(told['t399'] !== undefined && told['t1'] === undefined, 'of the others the newest')
  t.end()
})

/** Facts about a node, live by default; unspecified facts are unknown. */
function facts (n: number, more: Partial<NodeFacts> = {}, live = true): NodeFacts {
  const view = { ...linked(n), self: n === 1, live, master: n === 2 }
  return {
    view, seenAt: 1000, identity: { friendlyName: view.name },
    memory: null, system: null, disk: null, network: null,
    health: { level: 'ok', reasons: [] }, resources: null, capabilities: [], links: [], tasks: {}, ...more
  }
}

const stateOf = (nodes: NodeFacts[], more: Partial<StateInput> = {}): Record<string, object> => baseState({
  session: { sessionId: 's', masterNodeId: 'node2', term: 3 }, quorum: 'ok', stale: false, nodes,
  durableEvents: 4, ...more
}) as Record<string, object>

t.test('/state out of facts', (t) => {
  const memory = { ramTotal: { inBytes: 1 } } as unknown as NodeFacts['memory']
  const link = { nodeId: 'node1', ipAddress: '10.0.0.1', port: 80, rttMs: 0.5, bytesPerSecond: 9 }
  const said = { memory, seenAt: null, capabilities: ['tts'], links: [link], tasks: { t3: {} } }
  const gone = facts(3, said, false)
  const state = stateOf([
    facts(1, { tasks: { t1: {} }, links: [{ ...link, nodeId: 'node2', ipAddress: 'fd00::1' }] }),
    facts(2, { memory, capabilities: ['tts'], tasks: { t2: {} } }), gone
  ])
  t.match(state, {
    sessionId: 's', masterNodeId: 'node2', localNodeId: 'node1', lastEventAppliedIdx: 4,
    tasks: { t1: {}, t2: {} }, nodeMemory: { node2: memory }, nodeCapabilities: { node1: [], node2: ['tts'] },
    cluster: { term: 3, quorum: 'ok', stale: false, partition: true, knownNodes: 3, liveNodes: 2 },
    lastSeen: { node1: '1970-01-01T00:00:01.000Z' },
    topology: { nodes: ['node1', 'node2'] }
  })
  const keys = (name: string): string[] => Object.keys(state[name]!)
  t.strictSame((state['topology'] as { connections: object }).connections, {
    node1: { node2: [{
      sinkMultiaddr: { address: '/ip6/fd00::1/tcp/80', ipAddress: 'fd00::1', port: 80 },
      session: true, rttMs: 0.5, bytesPerSecond: 9
    }] }
  })
  t.strictSame(keys('nodeIdentities'), ['node1', 'node2', 'node3'], 'of whom is gone it is known who it was')
  t.strictSame([keys('nodeHealth').length, keys('nodeMemory'), keys('tasks'), keys('lastSeen')],
    [3, ['node2'], ['t1', 't2'], ['node1', 'node2']])
  t.equal(state['node_identities'], state['nodeIdentities'])
  const elsewhere = stateOf([facts(2), facts(1)])
  t.equal(elsewhere['localNodeId'], 'node2')
  t.strictSame(Object.keys(elsewhere['nodeHealth']!), ['node1', 'node2'], 'the same order on every node')
  t.match(stateOf([facts(1)], { quorum: 'lost', stale: true }),
    { cluster: { quorum: 'lost', stale: true, partition: false, knownNodes: 1 } })
  t.end()
})
