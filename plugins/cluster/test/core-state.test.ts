import t from 'tap'
import { authorities } from '../../../kernel/plugins/kernel-manifest.js'
import { definePlugin } from '../../../kernel/api/plugin.js'
import { kernelError } from '../../../kernel/api/errors.js'
import { coreCluster, failure, type CoreCluster, type Owner } from './core-kit.js'
import { dig, kernelsOn, type NodeRig, type RigOptions } from './core-rig.js'

interface Reason { code: string, severity: string, message: string, remediation: string }
interface Health { level: string, reasons: Reason[] }

interface Started { c: CoreCluster, rigs: NodeRig[] }

async function start (t: Owner, nodes: number, options: RigOptions = {}): Promise<Started> {
  const c = await coreCluster(t, { nodes })
  const rigs = await kernelsOn(t, c, options)
  await c.run(6000)
  return { c, rigs }
}

const healthOf = async (rig: NodeRig, of: NodeRig): Promise<Health> =>
  dig(await rig.get('/state'), 'nodeHealth', of.node.node.nodeId)

t.test('the same /state wherever one asks', async (t) => {
  const { rigs } = await start(t, 3)
  const states = await Promise.all(rigs.map(async (rig) => await rig.get('/state')))
  const common = (state: object): object => {
    const { localNodeId: _, lastSeen: __, topology, ...rest } = state as Record<string, unknown>
    return { ...rest, nodes: dig(topology, 'nodes') }
  }
  t.strictSame(states.map((s) => dig(s, 'localNodeId')), rigs.map((r) => r.node.node.nodeId))
  const byNode = ['Identities', 'Memory', 'System', 'Health', 'Resources', 'Capabilities']
  for (const state of states) {
    t.strictSame(common(state), common(states[0]!))
    for (const key of byNode) t.equal(Object.keys(dig(state, `node${key}`)).length, 3, key)
    t.equal(Object.keys(dig(state, 'topology', 'connections')).length, 3)
    t.match(dig(state, 'cluster'),
      { quorum: 'ok', stale: false, partition: false, knownNodes: 3, liveNodes: 3 })
  }
})

t.test('what a plugin adds to a reading is shown by every node, and stays', async (t) => {
  const plugin = definePlugin({
    name: 'adds', version: '1.0.0', kernel: '^1.0.0', summary: 'Adds.', state: { nodeSystem: 'More.' }
  }, (ctx) => ({
    state: {
      nodeSystem: (_caller: unknown, base: unknown) => {
        const nodes = base as Record<string, object>
        return { ...nodes, [ctx.node.nodeId]: { ...nodes[ctx.node.nodeId], added: 1 } }
      }
    }
  }))
  const { c, rigs } = await start(t, 2, { plugins: [plugin] })
  for (let round = 0; round < 8; round++) {
    await c.run(700)
    for (const rig of rigs) {
      const system = dig<Record<string, { added?: number }>>(await rig.get('/state'), 'nodeSystem')
      t.strictSame(Object.values(system).map(({ added }) => added), [1, 1])
    }
  }
})

t.test('a node that publishes no readings says so at every node', async (t) => {
  const { rigs } = await start(t, 2, { silent: (node) => node.name === 'n2' })
  for (const rig of rigs) {
    const id = rigs[1]!.node.node.nodeId
    t.match((await healthOf(rig, rigs[1]!)).reasons, [{
      code: 'readings_disabled', severity: 'warn', remediation: /SVC_TELEMETRY_DISABLE/
    }])
    t.match(dig(await rig.get('/state'), 'nodeResources', id), { readings: false })
    t.strictSame((await healthOf(rig, rigs[0]!)).reasons, [])
  }
})

t.test('a node that is gone is shown as unreachable after a while', async (t) => {
  const { c, rigs } = await start(t, 3)
  const [seen, , gone] = rigs as [NodeRig, NodeRig, NodeRig]
  c.kill(gone.node)
  await c.agreed()
  const at = async (): Promise<string[]> => (await healthOf(seen, gone)).reasons.map((r) => r.code)
  t.strictSame(await at(), [], 'not at once')
  await c.run(15_000)
  t.strictSame(await at(), ['unreachable'])
  const { level, reasons: [reason] } = await healthOf(seen, gone)
  t.equal(level, 'warn')
  t.match(reason, {
    severity: 'warn', message: /gives no sign of life.*Last sign of life: \d+ s ago/,
    remediation: /svc doctor/
  })
  const state = await seen.get('/state')
  const id = gone.node.node.nodeId
  t.match(dig(state, 'cluster'), { partition: true, knownNodes: 3, liveNodes: 2 })
  t.equal(dig(state, 'nodeMemory', id), undefined)
  t.match(dig(state, 'nodeIdentities', id), { friendlyName: 'n3' })
  t.type(dig(state, 'lastSeen', id), 'string')
  c.restart(gone.node)
  await c.agreed()
  await c.run(4000)
  t.equal(dig(await seen.get('/state'), 'nodeHealth', id), undefined, 'its old start is forgotten')
})

t.test('nodes of different versions say so', async (t) => {
  const { c, rigs } = await start(t, 2)
  const [one, two] = rigs as [NodeRig, NodeRig]
  t.strictSame(await healthOf(one, one), { level: 'ok', reasons: [] })
  two.version = '9.9.9'
  await c.run(4000)
  for (const rig of rigs) {
    const { level, reasons: [reason] } = await healthOf(rig, one)
    t.equal(level, 'warn')
    t.match(reason, { code: 'version_mismatch', message: /1\.0\.0 here, 9\.9\.9 on n2/ })
  }
  two.version = '1.0.0'
  await c.run(4000)
  t.strictSame(await healthOf(two, one), { level: 'ok', reasons: [] })
})

t.test('POST /cluster/touch', async (t) => {
  const { c, rigs } = await start(t, 3)
  const headers = { 'x-svc-command-id': '0f8fad5b-d9cb-469f-a165-70867728950e' }
  const answers: unknown[] = []
  for (const rig of rigs) {
    const answer = await c.settled(rig.ask('POST', '/cluster/touch', undefined, headers))
    t.equal(answer.statusCode, 200)
    answers.push(answer.json())
  }
  t.match(answers[0], { sid: rigs[0]!.node.core.session.sessionId, term: Number, seq: Number,
    command_id: headers['x-svc-command-id'] })
  t.strictSame(answers, [answers[0], answers[0], answers[0]], 'one command, one answer')
  const other = (await c.settled(rigs[1]!.ask('POST', '/cluster/touch'))).json() as { seq: number }
  t.ok(other.seq > (answers[0] as { seq: number }).seq)
  const wrong = await rigs[0]!.ask('POST', '/cluster/touch', undefined, { 'x-svc-command-id': 'seven' })
  t.equal(wrong.statusCode, 400)
  t.match(wrong.json(), { error: { reason: 'invalid_request' } })
})

t.test('GET /cluster/members', async (t) => {
  const { c, rigs } = await start(t, 2)
  const master = await c.agreed()
  const list = await rigs[0]!.get('/cluster/members')
  t.match(list, {
    clusterId: c.at(0).members.current().clusterId, dials: [], removed: [],
    members: c.nodes.map((node) => ({
      installId: node.installId, nodeId: node.node.nodeId, name: node.name,
      live: true, master: node === master, self: node === c.at(0),
      fingerprint: /^[\w-]{43}$/, addresses: [`${node.name}:81`],
      version: node === c.at(0) ? null : '1.0.0', rttMs: node === c.at(0) ? null : 1
    }))
  })
})

t.test('DELETE /cluster/members/:id', async (t) => {
  const { c, rigs } = await start(t, 3)
  const [one, , three] = rigs as [NodeRig, NodeRig, NodeRig]
  const check = async (id: string, status: number, body: object): Promise<void> => {
    const answer = await c.settled(one.ask('DELETE', `/cluster/members/${id}`))
    t.equal(answer.statusCode, status, id)
    t.match(answer.json(), body)
  }
  await check('nobody', 404, { error: { reason: 'node_not_found' } })
  for (const self of ['local', 'n1', one.node.installId, one.node.node.nodeId]) {
    await check(self, 409, { error: { reason: 'member_self' } })
  }
  await check('n3', 200, { installId: three.node.installId, removed: true })
  await check('n3', 404, { error: { reason: 'node_not_found' } })
  const list = await one.get('/cluster/members')
  t.match(list, { members: { length: 2 }, removed: [{ installId: three.node.installId }] })
})

t.test('POST /cluster/join-tokens', async (t) => {
  const reach = async (
    addresses: string[], body: object, status: number, expected: object
  ): Promise<void> => {
    const { rigs: [rig] } = await start(t, 1, { network: { addresses: () => addresses } })
    const answer = await rig!.ask('POST', '/cluster/join-tokens', body)
    t.equal(answer.statusCode, status, addresses.join())
    t.match(answer.json(), expected)
  }
  const refused = { error: { reason: 'loopback_only' } }
  const token = { token: 'svcjoin1_900', command: 'SVC_JOIN=svcjoin1_900 ./svc up', expires: String }
  await reach(['127.0.0.1:81'], {}, 409, refused)
  await reach(['[::1]:81', 'localhost:81'], {}, 409, refused)
  await reach([], {}, 409, refused)
  await reach(['127.0.0.1:81'], { local: true }, 200, token)
  await reach(['127.0.0.1:81', '192.0.2.1:81'], {}, 200, token)
  await reach(['[2001:db8::1]:81'], { ttl_seconds: 10 }, 200, { token: 'svcjoin1_10' })
  await reach(['192.0.2.1:81'], { ttl_seconds: 9 }, 400, { error: { reason: 'invalid_request' } })
  await reach(['192.0.2.1:81'], { minutes: 9 }, 400, { error: { reason: 'invalid_request' } })
})

t.test('whoever admits a member holds every authority that a member can vouch for', async (t) => {
  const all = Object.keys(authorities)
  for (const lacking of all) {
    const { rigs: [rig] } = await start(t, 1, { allow: all.filter((one) => one !== lacking) })
    const answer = await rig!.ask('POST', '/cluster/join-tokens', { local: true })
    t.match([answer.statusCode, answer.json()],
      [401, { error: { reason: 'unauthenticated', details: { authority: lacking } } }], lacking)
  }
})

t.test('a join token for another machine has members listened for outside first', async (t) => {
  let addresses = ['127.0.0.1:81']
  let asked = 0
  const openOutside = async (): Promise<void> => {
    if (++asked > 1) throw kernelError('loopback_only', 'port 81 is taken there')
    addresses = ['192.0.2.1:81']
  }
  const { rigs: [rig] } = await start(t, 1, { network: { addresses: () => addresses, openOutside } })
  t.equal((await rig!.ask('POST', '/cluster/join-tokens', { local: true })).statusCode, 200)
  t.equal(asked, 0, 'a node of this machine needs nothing')
  t.equal((await rig!.ask('POST', '/cluster/join-tokens', {})).statusCode, 200)
  t.equal(asked, 1)
  const refused = await rig!.ask('POST', '/cluster/join-tokens', {})
  t.match([refused.statusCode, refused.json()],
    [409, { error: { reason: 'loopback_only', message: /port 81/, details: { remedy: /cluster\.host/ } } }])
})

t.test('join tokens are listed and revoked', async (t) => {
  const tokens = [{ id: 'a', expires: '2026-01-01T00:00:00.000Z', by: 'operator' }]
  const joinTokens = { list: () => tokens, revoke: (id: string) => id === 'a' }
  const { rigs: [rig] } = await start(t, 1, { network: { joinTokens } })
  t.same(await rig!.get('/cluster/join-tokens'), { tokens })
  const revoke = async (id: string): Promise<object> =>
    (await rig!.ask('DELETE', `/cluster/join-tokens/${id}`)).json()
  t.same(await revoke('a'), { id: 'a', revoked: true })
  t.match(await revoke('b'), { error: { reason: 'not_found', message: /has no open join token b/ } })
})

t.test('the routes of the cluster are for operators', async (t) => {
  const { rigs: [rig] } = await start(t, 1, { allow: ['read', 'cluster:write'] })
  for (const [method, url] of [
    ['POST', '/cluster/join-tokens'], ['GET', '/cluster/join-tokens'],
    ['DELETE', '/cluster/join-tokens/x'], ['GET', '/cluster/members'], ['DELETE', '/cluster/members/x'],
    ['POST', '/cluster/touch'], ['GET', '/cluster/probe']
  ] as const) t.equal((await rig!.ask(method, url)).statusCode, 401, url)
  const state = await rig!.get('/state')
  t.equal(dig(state, 'nodeIdentities', rig!.node.node.nodeId, 'apiUrl'), null, 'and addresses are')
})

t.test('only members measure links', async (t) => {
  const { rigs: [rig] } = await start(t, 1)
  const answer = await rig!.ask('GET', '/cluster/probe')
  t.equal(answer.statusCode, 404)
  t.match(answer.json(), { error: { reason: 'not_found' } })
})

t.test('what another node says wrongly of itself harms nobody', async (t) => {
  const { c, rigs } = await start(t, 2)
  const [one, two] = rigs as [NodeRig, NodeRig]
  const id = two.node.node.nodeId
  for (const wrong of [7, null, 'x', [7], { reasons: 1 }, [{ nodeId: 7 }]]) {
    for (const key of ['identity', 'health', 'resources', 'capabilities']) {
      two.node.core.replicas.put(`node/${key}`, wrong)
    }
    one.hear(two, Object.fromEntries(['memory', 'system', 'disk', 'network', 'links', 'tasks'].map((key) =>
      [key, wrong])))
    await c.run(60)
    const answer = await one.ask('GET', '/state')
    t.equal(answer.statusCode, 200, JSON.stringify(wrong))
    const of = (key: string): unknown => dig(answer.json(), key, id)
    t.strictSame(of('nodeCapabilities'), [])
    t.match(of('nodeIdentities'), { friendlyName: 'n2' })
    t.strictSame([of('nodeMemory'), of('nodeDisk'), dig(answer.json(), 'topology', 'connections', id)],
      [undefined, undefined, undefined])
  }
})

t.test('a command is looked at where it is carried out', async (t) => {
  const seen: unknown[] = []
  const manifest = {
    name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'Decides.',
    commands: {
      add: {
        summary: 'Adds.',
        args: { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } }
      }
    }
  } as const
  const plugin = definePlugin(manifest, () => ({ commands: { add (args) { seen.push(args) } } }))
  const { c } = await start(t, 2, { plugins: [plugin] })
  const [asker] = c.others(await c.agreed())
  for (const args of [{ n: 'six' }, {}, null]) {
    const refused = await failure(c.settled(asker!.core.commands.run('probe.add', args)))
    t.match(refused, { reason: 'invalid_request', status: 400, message: /"probe.add": / })
  }
  await c.settled(asker!.core.commands.run('probe.add', { n: 6 }))
  t.strictSame(seen, [{ n: 6 }])
})
