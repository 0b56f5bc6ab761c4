/** A model split between a driver and its donors: roles, and the byte streams between the nodes. */
import { randomBytes, randomUUID } from 'node:crypto'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { Gangs } from '../donors/gang.js'
import { roleOf } from '../donors/role.js'
import { bodyOf, isHelper, leads } from '../instances/shapes.js'
import { client, echo, pair, star } from './donors-kit.js'
import { until } from './process-kit.js'
import { startRunners } from './rig.js'

t.test('who is what', async (t) => {
  const instance = star([4, 2, 3])
  t.strictSame(roleOf(instance, 'n0'), {
    kind: 'driver', tensor: false, layers: 4,
    donors: [{ nodeId: 'n1', runnerId: 'r-n1', layers: 2 }, { nodeId: 'n2', runnerId: 'r-n2', layers: 3 }]
  }, 'donors in the order of their ranks')
  t.match(roleOf(instance, 'n2'),
    { kind: 'donor', driverNode: 'n0', card: { modelId: 'acme/gguf', files: [] } })
  t.equal(roleOf(instance, 'other'), null)
  const ranks = ['n0', 'n1', 'n2'].map((nodeId) => ({ nodeId, runnerId: `r-${nodeId}` }))
  t.match(roleOf(star([4, 2, 3], 'RingInstance'), 'n2'), { kind: 'gang', rank: 2, ranks })
  t.equal(roleOf(star([4], 'RingInstance'), 'n0'), null)
  t.strictSame(['n0', 'n1', 'n2'].map((id) => isHelper(bodyOf(instance), id)), [false, true, true])
  t.strictSame(['n0', 'n1', 'n2'].map((id) => leads(instance, id)), [true, false, false])
})

t.test('bytes go both ways, whole and in order', async (t) => {
  const { port, sockets } = await echo(t)
  const rig = pair(t, () => port)
  rig.status({ RunnerReady: {} })
  const { socket, heard } = await client(t, await rig.open())
  const sent = randomBytes(1_000_000)
  socket.write(sent)
  await until('all of it is back', () => heard().length === sent.length)
  t.ok(heard().equals(sent))
  t.equal(rig.requests.open, 2, 'one each way')
  socket.destroy()
  await until('the donor hears of the end', () => sockets.size === 0)
  await until('nothing is left open', () => rig.requests.open === 0)
})

t.test('the ports open when the donors are ready', async (t) => {
  const { port } = await echo(t)
  const rig = pair(t, () => port)
  let opened = 0
  const opening = rig.open().then((local) => { opened = local })
  for (const status of [{ RunnerConnected: {} }, { RunnerFailed: { errorMessage: 'x' } }]) {
    rig.status(status)
    await new Promise((resolve) => setImmediate(resolve))
    t.equal(opened, 0)
    t.equal(rig.drivers.plan('r-n0', roleOf(star([4, 2]), 'n0') as never), null)
  }
  rig.status({ RunnerReady: {} })
  await opening
  t.ok(opened > 0)
})

t.test('a driver that is stopped while it waits', async (t) => {
  const rig = pair(t, () => 1)
  const role = roleOf(star([4, 2]), 'n0') as never
  const waiting = rig.drivers.prepare({ instanceId: 'I', runnerId: 'r-n0', modelId: 'm' }, role)
  rig.drivers.release('r-n0')
  await waiting
  t.equal(rig.drivers.plan('r-n0', role), null, 'has no ports')
})

t.test('the ports are there as long as the runner', async (t) => {
  const { port, sockets } = await echo(t)
  const rig = pair(t, () => port)
  rig.status({ RunnerReady: {} })
  const local = await rig.open()
  const { socket, heard, over } = await client(t, local)
  socket.write('x')
  await until('it is through', () => heard().length === 1)
  rig.drivers.release('r-n0')
  await until('the connection ends', over)
  await until('on both sides', () => sockets.size === 0)
  await t.rejects(client(t, local), { code: 'ECONNREFUSED' })
})

t.test('the loss of a donor ends the connection', async (t) => {
  const { port, close } = await echo(t)
  const rig = pair(t, () => port)
  rig.status({ RunnerReady: {} })
  const one = await client(t, await rig.open())
  one.socket.write('x')
  await until('it is through', () => one.heard().length === 1)
  close()
  await until('its program is gone', one.over)
  await until('its driver is told', () => rig.anew.length === 1)
  t.match(rig.anew, [/the connection to the rank on n1 broke/])

  const { port: again } = await echo(t)
  const back = pair(t, () => again)
  back.status({ RunnerReady: {} })
  const two = await client(t, await back.open())
  two.socket.write('x')
  await until('it is through', () => two.heard().length === 1)
  back.lost.is = true
  back.clock.advance(1_000)
  await until('its node is gone', two.over)
  await until('nothing is left open', () => back.requests.open === 0)
  await until('its driver is told', () => back.anew.length === 1)
})

t.test('a donor that is not ready any more has its driver start anew, once', async (t) => {
  const { port } = await echo(t)
  const rig = pair(t, () => port)
  const waited: string[] = []
  const role = roleOf(star([4, 2]), 'n0') as never
  const assignment = { instanceId: 'I', runnerId: 'r-n0', modelId: 'm' }
  const prepared = rig.drivers.prepare(assignment, role, (message) => { waited.push(message) })
  t.same(waited, ['the rank on n1 is not ready'], 'it says for whom it waits')
  rig.status({ RunnerReady: {} })
  await prepared
  rig.status({ RunnerRunning: {} })
  rig.status({ RunnerIdle: {} })
  await until('it is told', () => rig.anew.length > 0)
  rig.status({ RunnerReady: {} })
  rig.status({ RunnerIdle: {} })
  t.same(rig.anew, ['the rank on n1 is not ready'])
  t.equal(rig.drivers.plan('r-n0', role), null, 'its ports are closed')
  const { socket, over, heard } = await client(t, await again())
  socket.write('x')
  await until('the new ones lead there', () => heard().length === 1)
  socket.end()
  await until('it is closed', over)
  t.equal(rig.anew.length, 1, 'what the driver closes itself is no loss')
  async function again (): Promise<number> {
    rig.status({ RunnerReady: {} })
    return await rig.open()
  }
})

t.test('nobody else gets through', async (t) => {
  const { port } = await echo(t)
  const rig = pair(t, () => port)
  const body = { instanceId: 'I', runnerId: 'r-n1', feedId: randomUUID(), run: randomUUID() }
  const reason = async (over: object, member: string | null = 'install-n0'): Promise<unknown> =>
    (await rig.ask({ ...body, ...over }, member)).headers['reason']
  t.equal(await reason({}, null), 'not_found', 'no member')
  t.equal(await reason({}, 'install-n2'), 'not_found', 'a member that is not the driver')
  t.equal(await reason({ instanceId: 'J' }), 'instance_lost')
  t.equal(await reason({ runnerId: 'r-n0' }), 'instance_lost')
  t.equal(await reason({}), 'instance_lost', 'the driver does not know of that connection')
  t.equal((await rig.feed(randomUUID(), 'install-n1')).status, 404)
})

t.test('a rank joins for the first rank alone, with an equal program', async (t) => {
  const instance = star([1, 1], 'RingInstance')
  const never = async () => await Promise.reject(new Error('no'))
  const offer = { problem: null as string | null }
  const gangs = new Gangs({
    nodeId: 'n1', clock: manualClock(), newId: randomUUID, runners: {} as never, drivers: { forward: never },
    instances: { get: (id: string) => id === 'I' ? instance : undefined } as never, fleet: never as never,
    cluster: { resolve: (id: string) => ({ installId: `install-${id}` }), request: never } as never,
    offer: () => ({ version: '1', models: [], linked: false, program: 'vllm 1', ...offer })
  })
  const join = async (over: object = {}, member: string | null = 'install-n0') => {
    const body = { instanceId: 'I', runnerId: 'r-n1', program: 'vllm 1', headPort: 1, ...over }
    let ended = false
    await gangs.join({ body, member, open: () => ({ end: async () => { ended = true } }) } as never)
    return ended
  }
  t.equal(await join(), true)
  const others: Parameters<typeof join>[] =
    [[{}, null], [{}, 'install-n1'], [{ instanceId: 'J' }], [{ runnerId: 'r-n0' }]]
  for (const given of others) await t.rejects(join(...given), { reason: 'not_found' } as never)
  await t.rejects(join({ program: 'vllm 2' }),
    { reason: 'instance_lost', message: /n1 has vllm 1, others vllm 2/ })
  offer.problem = 'the interface eth9 is gone'
  await t.rejects(join(), { reason: 'instance_lost', message: /n1 cannot take part: the interface eth9/ })
})

t.test('a donor whose runner is not ready', async (t) => {
  const rig = pair(t, () => null)
  rig.status({ RunnerReady: {} })
  const { over } = await client(t, await rig.open())
  await until('the connection ends', over)
  const looks = rig.looks()
  await rig.clock.advance(5_000)
  t.equal(rig.looks(), looks, 'neither side watches the other any more')
})

t.test('not more connections than a driver needs', async (t) => {
  const { port } = await echo(t)
  const rig = pair(t, () => port)
  rig.status({ RunnerReady: {} })
  const local = await rig.open()
  const clients = await Promise.all(Array.from({ length: 8 }, async () => await client(t, local)))
  for (const { socket } of clients) socket.write('x')
  await until('all are through', () => clients.every(({ heard }) => heard().length === 1))
  const body = { instanceId: 'I', runnerId: 'r-n1', feedId: randomUUID(), run: randomUUID() }
  t.equal((await rig.ask(body, 'install-n0')).headers['reason'], 'overloaded')
})

t.test('the routes are for members', async (t) => {
  const rig = await startRunners(t, { place: [] })
  const payload = { instanceId: 'I', runnerId: 'r', feedId: randomUUID(), run: randomUUID() }
  const asked = await rig.inject({ method: 'POST', url: '/runners/donors', payload })
  t.match([asked.statusCode, asked.json()], [404, { error: { reason: 'not_found' } }])
  const fed = await rig.inject({ url: `/runners/donors/${randomUUID()}` })
  t.match([fed.statusCode, fed.json()], [404, { error: { reason: 'not_found' } }])
  const odd = await rig.inject({ url: '/runners/donors/..' })
  t.not(odd.statusCode, 200)
})
