import t from 'tap'
import type { ModelCard } from '../../../kernel/index.js'
import { bodyOf, type Instance, type RingInstance } from '../../runners/service.js'
import { MISSING_MS } from '../keeper/lost-nodes.js'
import { small, startCluster, type TestCluster } from './cluster-kit.js'
import { card, GIB } from './kit.js'
import type { NodeRig } from '../../cluster/test/core-rig.js'

const MODEL = 'acme/chat'

interface View {
  instances: Record<string, Instance>
  runners: Record<string, Record<string, unknown>>
  waitingInstances: Record<string, { reason: string }>
}

const view = async (at: NodeRig): Promise<View> => await at.get('/state') as View

/** Waits until the model has a ready instance whose id is not `before`. */
async function moved (c: TestCluster, at: NodeRig, before: string): Promise<RingInstance> {
  return await c.eventually('a ready instance in its place', async () => {
    const { instances, runners } = await view(at)
    const [ring, ...more] = Object.values(instances).map(bodyOf)
    if (ring === undefined || more.length > 0 || ring.instanceId === before) return undefined
    const kinds = Object.values(ring.shardAssignments.nodeToRunner)
      .map((runnerId) => Object.keys(runners[runnerId] ?? {})[0])
    return kinds.every((kind) => kind === 'RunnerReady') ? ring : undefined
  })
}

async function roles (c: TestCluster): Promise<{ master: NodeRig, others: NodeRig[] }> {
  const running = c.rigs.filter(({ node }) => node.running)
  const node = await c.agreed()
  return {
    master: running.find((rig) => rig.node === node)!, others: running.filter((rig) => rig.node !== node)
  }
}

/** Places the model on this node, by leaving too little memory on the others until it is placed. */
async function placeOn (c: TestCluster, on: NodeRig): Promise<string> {
  const others = c.rigs.filter((rig) => rig !== on)
  for (const { node } of others) c.free.set(node.name, TOO_LITTLE)
  await c.run(READINGS_MS)
  const { id } = await c.place(others[0]!, MODEL)
  for (const { node } of others) c.free.delete(node.name)
  await c.run(READINGS_MS)
  return id
}

/** Bytes of memory that are too few for the model, and ms until all nodes have the latest readings. */
const TOO_LITTLE = 1e9
const READINGS_MS = 5000

async function onWorker (c: TestCluster): Promise<{ id: string, on: NodeRig, master: NodeRig }> {
  const { master, others: [on] } = await roles(c)
  return { id: await placeOn(c, on!), on: on!, master }
}

t.test('a lost node: what it ran is placed on another one, once, and its runner is gone', async (t) => {
  const c = await startCluster(t)
  const { id, on, master } = await onWorker(c)
  c.lose(on)
  const lostAt = c.clock.mono()
  const ring = await moved(c, master, id)
  t.ok(c.clock.mono() - lostAt >= MISSING_MS, 'not before it was missed for long enough')
  t.not(c.rigOf(ring), on)
  t.match(ring.placement, { origin: 'request', replaces: id, failedOn: [] })
  await c.run(10_000)
  t.strictSame((await c.instances(master)).map(({ instanceId }) => instanceId), [ring.instanceId])
  t.strictSame((await view(master)).waitingInstances, {})
  t.equal(c.runners.length, 2, 'one runner there, one here')
})

t.test('a lost master: the next one places what it ran', async (t) => {
  const c = await startCluster(t)
  const { master } = await roles(c)
  const id = await placeOn(c, master)
  c.lose(master)
  const { master: next } = await roles(c)
  t.not(next, master)
  const ring = await moved(c, next, id)
  t.equal(ring.placement?.replaces, id)
})

t.test('a lost master that ran nothing: what runs goes on under its id', async (t) => {
  const c = await startCluster(t)
  const { id, on, master } = await onWorker(c)
  c.lose(master)
  const { master: next } = await roles(c)
  await c.run(20_000)
  t.strictSame((await c.instances(next)).map(({ instanceId }) => instanceId), [id])
  t.equal(c.runners.length, 1)
  t.notOk(c.runners[0]!.runner.stopped, on.node.name)
})

for (const quorum of [1, 'majority'] as const) {
  t.test(`a node that is cut off and comes back: one instance, quorum ${quorum}`, async (t) => {
    const c = await startCluster(t, { quorum })
    const { id, on, master } = await onWorker(c)
    const rest = c.rigs.filter((rig) => rig !== on)
    c.cut([on.node], rest.map(({ node }) => node))
    const ring = await moved(c, master, id)
    t.not(c.rigOf(ring), on)
    c.heal()
    await roles(c)
    await c.eventually('all to name the same one', async () => {
      const seen = await Promise.all(c.rigs.map(async (rig) => await c.instances(rig)))
      const ids = seen.map((all) => all.map(({ instanceId }) => instanceId).join())
      return new Set(ids).size === 1 && seen[0]!.length === 1
    })
    await c.eventually('one runner in all of the cluster', async () =>
      c.runners.filter(({ runner }) => !runner.stopped).length === 1)
  })
}

t.test('all nodes plan for the same memory at once: the master gives it to one of them', async (t) => {
  const models = ['acme/a', 'acme/b', 'acme/c']
  // Keep the models loading, because memory readings do not include a loading model.
  const c = await startCluster(t, {
    started: () => {}, cards: models.map((modelId) => ({ ...small(), modelId }))
  })
  for (const name of ['n1', 'n2', 'n3']) c.free.set(name, name === 'n1' ? 3e9 : TOO_LITTLE)
  await c.run(READINGS_MS)
  const answers = await c.settled(Promise.all(c.rigs.map(async (rig, i) =>
    await rig.ask('POST', '/place_instance', { model_id: models[i] }))))
  t.strictSame(answers.map(({ statusCode }) => statusCode).sort(), [200, 400, 400])
})

t.test('what a side had placed that loses its session has an end in the log, with the reason', async (t) => {
  const c = await startCluster(t, { quorum: 1 })
  const { master, others } = await roles(c)
  const kept = await placeOn(c, others[0]!)
  const ended = (): TestCluster['events'] => c.events.filter(({ kind }) => kind === 'InstanceDeleted')
  c.cut([master.node], others.map(({ node }) => node))
  await c.run(30_000)
  t.ok(master.node.core.session.isMaster, 'it decides alone')
  const { id } = await c.place(master, MODEL)
  c.events.length = 0
  await c.ask(others[0]!, 'DELETE', `/instance/${kept}`)
  await c.run(1000)
  c.heal()
  await c.agreed()
  await c.run(10_000)
  t.strictSame(ended().map(({ payload }) => payload), [
    { instanceId: kept, modelId: MODEL }, { instanceId: id, modelId: MODEL, reason: 'session_lost' }
  ])
})

/** A llama.cpp model that no single node can hold. */
const large = (): ModelCard => card('acme/large', { engine: 'star', totalBytes: 8 * GIB })

t.test('where an operator does not allow it, a plan says so, not a runner', async (t) => {
  const c = await startCluster(t, { cards: [large()], runners: { n1: { rpc_for_every_user: true } } })
  const url = '/instance/placement?model_id=acme/large'
  const alone = await c.ask(c.rigs[0]!, 'GET', url)
  t.match(alone, { status: 400, body: { error: { reason: 'insufficient_memory' } } })
  t.match((await c.ask(c.rigs[0]!, 'GET', `${url}&min_nodes=2`)).body.error, {
    reason: 'spread_unsupported',
    message: /^Too few nodes may share a model.*runners\.rpc_for_every_user is not set on n[23], n[23]\./
  })
})
