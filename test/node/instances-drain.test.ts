import t from 'tap'
import { refusal } from './http.js'
import { figure, pick, secondsSince, sleep, until } from './kit.js'
import {
  answersAt, askWithin, endWithin, homeOf, instance, instancesCluster, instancesOf, openEvents,
  openFrames, place, placeOn, placing, refused, removing, outcomeOf, settled, view, working
} from './instances-kit.js'
import { alive } from './proc.js'

t.test('instances that are stopped', async (t) => {
  const cluster = await instancesCluster(t)
  const { master, others: [worker, third] } = await cluster.agreed() as Awaited<ReturnType<
    typeof cluster.agreed>> & { others: [typeof cluster.members[0], typeof cluster.members[0]] }
  const all = cluster.members

  await t.test('T-R15: DELETE of a busy instance', async (t) => {
    const id = await placeOn(cluster, worker, 'test/ok')
    await answersAt(all, 'test/ok')
    const [pid] = worker.node.runners()
    const streams = [await openFrames(third.node, 'test/ok', { chunks: 60, delayMs: 50 }),
      await openEvents(master.node, 'test/ok', { chunks: 60, delayMs: 50 }),
      await openFrames(worker.node, 'test/ok', { chunks: 60, delayMs: 50 })]
    const answer = await removing(third.node, id, '?drain_seconds=60')
    t.equal(answer.status, 200, answer.text)
    for (const { node } of all) {
      const no = await refused(node, 'test/ok', 'no_instance')
      t.equal(no.status, 404, 'new requests find no instance')
    }
    t.ok(alive(pid!), 'while it goes on with those it has')
    for (const each of streams) {
      const end = await endWithin(each, 15)
      t.match(end, { terminals: 1, kind: 'completed', cut: false }, 'each ends as if nothing were')
    }
    t.strictSame(await settled(all), [], 'then it is gone')
    t.notOk(alive(pid!))
    t.equal((await removing(third.node, id)).status, 404)
  })

  await t.test('DELETE, after its timeout', async (t) => {
    const id = await placeOn(cluster, worker, 'test/ok')
    const streams = [await openFrames(third.node, 'test/ok'), await openEvents(master.node, 'test/ok')]
    const start = performance.now()
    t.equal((await removing(master.node, id, '?drain_seconds=1')).status, 200)
    for (const each of streams) {
      t.match(await endWithin(each, 15),
        { terminals: 1, reason: 'instance_lost', retryable: true, cut: false })
    }
    t.strictSame(await settled(all), [])
    figure(t, 'T-R15', t.passing(), { how: 'drained for 1 s', seconds: secondsSince(start) })
  })

  await t.test('placed again while it drains', async (t) => {
    const id = await placeOn(cluster, worker, 'test/ok')
    const opened = await openFrames(master.node, 'test/ok')
    t.equal((await removing(master.node, id, '?drain_seconds=60')).status, 200)
    const next = await placeOn(cluster, worker, 'test/ok')
    t.not(next, id, 'another one beside it')
    await answersAt(all, 'test/ok')
    t.ok((await view(master.node)).instances[id]?.RingInstance.drainUntil, 'and the first one still ends')
    opened.leave()
    await until('the first to be gone', async () => (await view(master.node)).instances[id] === undefined)
    const rings = await settled(all)
    t.strictSame(rings.map(({ instanceId }) => instanceId), [next])
    t.equal((await removing(third.node, next)).status, 200)
    t.strictSame(await settled(all), [])
  })

  await t.test('DELETE while it loads', async (t) => {
    const placed = await placing(third.node, 'test/stuck', { excluded_nodes: [master.name, third.name] })
    const { instance_id: id } = placed.json as { instance_id: string }
    const pid = await until('its warmup', async () => {
      const [runner] = Object.values((await view(worker.node)).runners)
      return runner?.['RunnerWarmingUp'] !== undefined && worker.node.runners()[0]
    })
    const start = performance.now()
    t.equal((await removing(third.node, id)).status, 200)
    await until('the runner to be gone', () => !alive(pid))
    t.strictSame(await settled(all), [])
    t.strictSame((await view(master.node)).instanceFailures.filter((f) => f.instanceId === id), [],
      'which is no failure')
    figure(t, 'T-R15', t.passing(), { how: 'in its warmup', seconds: secondsSince(start) })
  })

  await t.test('a command is cancelled through a third node', async (t) => {
    const id = await placeOn(cluster, worker, 'test/ok')
    await answersAt(all, 'test/ok')
    const opened = await openFrames(master.node, 'test/ok')
    const other = await openFrames(master.node, 'test/ok')
    const start = performance.now()
    const answer = await askWithin(third.node, `/v1/cancel/${opened.commandId}`, { method: 'POST' })
    t.match([answer.status, answer.json], [200, { command_id: opened.commandId }], answer.text)
    t.match(await endWithin(opened, 10), { terminals: 1, kind: 'cancelled', cut: false })
    await working([worker], 'test/ok', 1)
    figure(t, 'cancel from another node', t.passing(), { seconds: secondsSince(start) })
    const unknown = await askWithin(third.node, '/v1/cancel/00000000-0000-4000-8000-000000000000',
      { method: 'POST' })
    t.match([unknown.status, refusal(unknown)?.reason], [404, 'command_unknown'])
    other.leave()
    await working([worker], 'test/ok', 0)
    await removing(master.node, id)
  })

  await t.test('ttl_seconds: an unused model is unloaded, and stays so', async (t) => {
    const ttl = pick(2, 5)
    const id = await place(third.node, 'test/ok', { ttl_seconds: ttl })
    t.match((await instance(third.node, id)).placement, { ttlSeconds: ttl })
    const start = performance.now()
    while (secondsSince(start) < 2 * ttl) {
      t.equal(await outcomeOf(master.node, 'test/ok'), 'completed', 'requests keep it')
      await sleep(ttl * 200)
    }
    t.match((await instancesOf(master.node, 'test/ok')).map(({ instanceId }) => instanceId), [id])
    const home = homeOf(cluster, await instance(master.node, id))
    const last = performance.now()
    await until('it to be unloaded', async () => home.node.runners().length === 0, { seconds: 20 })
    const idle = secondsSince(last)
    t.strictSame(await settled(all), [])
    await refused(master.node, 'test/ok', 'no_instance')
    // The keeper runs about every second, and must not bring back instances that were removed on purpose.
    await sleep(pick(1500, 5000))
    t.strictSame(await settled(all), [])
    figure(t, 'ttl', t.passing() && idle >= ttl * 0.7, { ttlSeconds: ttl, idleSeconds: idle })
  })
})
