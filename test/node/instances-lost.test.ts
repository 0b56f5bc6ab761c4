import t, { type Test } from 'tap'
import { percentiles, type Cluster, type Member } from './cluster-kit.js'
import { refusal } from './http.js'
import { figure, inTime, pick, secondsSince, until } from './kit.js'
import {
  answersAt, endWithin, ENDLESS, heldRequest, homeOf, instance, instancesCluster, instancesOf, nodesOf,
  openEvents, openFrames, place, placeOn, removing, settled, tasksOn, view, working, type Open
} from './instances-kit.js'
import { alive, descendants } from './proc.js'

/** Skip reason for subtests that only `npm run test:faults` runs. */
const SHORT = pick<string | false>('only in the long form: npm run test:faults', false)
/** Expected end reasons for a request whose instance is lost. */
const LOST = ['instance_lost', 'session_changed']

/** Checks that each stream ends once with a retryable error; returns the seconds from `start` to each end. */
async function allLost (t: Test, streams: readonly Open[], start: number): Promise<number[]> {
  const ends = await Promise.all(streams.map(async (each) => await endWithin(each, 15)))
  for (const end of ends) {
    t.ok(end !== 'hangs' && end.terminals === 1 && !end.cut && end.retryable === true &&
      LOST.includes(end.reason ?? ''), `one terminal, retryable: ${JSON.stringify(end)}`)
  }
  return ends.flatMap((end) => end === 'hangs' ? [] : [Math.round(end.seconds * 1000 - start) / 1000])
}

t.test('nodes that die, and nodes that stop', async (t) => {
  const cluster = await instancesCluster(t, { plugins: { runners: { max_concurrent: 64 } } })
  const { master } = await cluster.agreed()
  await placeOn(cluster, master, 'test/b')

  await t.test('T-R11, T-R02: kill -9 of a worker node', async (t) => {
    const ended: number[] = []
    const back: number[] = []
    let unharmed = 0
    const rounds = pick(1, 10)
    for (let n = 0; n < rounds; n++) {
      const round = await nodeLost(t, cluster, master)
      ended.push(...round.ended)
      back.push(round.back)
      unharmed += round.unharmed
    }
    const values = {
      rounds, streamsEndedSeconds: percentiles(ended), elsewhereSeconds: percentiles(back), unharmed
    }
    figure(t, 'T-R11', t.passing() && inTime(values.streamsEndedSeconds.max, 7) &&
    inTime(values.elsewhereSeconds.max, 10), values)
  })

  await t.test('T-R14: SIGTERM of a worker node', async (t) => {
    const id = await place(master.node, 'test/ok', { excluded_nodes: [master.name] })
    const home = homeOf(cluster, await instance(master.node, id))
    // The stream is endless only in the long form, because it delays the node's exit until the stop timeout.
    const streams = [await openFrames(master.node, 'test/ok', { chunks: 30, delayMs: 50 }),
      await openEvents(master.node, 'test/ok', pick({ chunks: 30, delayMs: 50 }, ENDLESS))]
    const below = [home.pid(), ...descendants(home.pid())]
    const start = performance.now()
    process.kill(home.pid(), 'SIGTERM')
    const ends = await Promise.all(streams.map(async (each) => await endWithin(each, 20)))
    for (const end of ends) {
      t.ok(end !== 'hangs' && end.terminals === 1 && !end.cut && (end.kind === 'completed' ||
        (end.retryable === true && [...LOST, 'shutting_down'].includes(end.reason ?? ''))),
      `one terminal: ${JSON.stringify(end)}`)
    }
    await until('the end of the node', () => below.every((pid) => !alive(pid)))
    const gone = secondsSince(start)
    await home.kill()
    await answersAt(cluster.up(), 'test/ok')
    const back = secondsSince(start)
    // The drained instance stays in the list until the other nodes miss its node.
    const now = await until('another instance in its place', async () =>
      (await instancesOf(master.node, 'test/ok')).find((one) => one.placement?.replaces === id))
    figure(t, 'T-R14', t.passing() && inTime(gone, 15), { how: 'SIGTERM of a worker node', goneSeconds: gone,
      elsewhereSeconds: back })
    await home.start()
    await cluster.agreed()
    await removing(master.node, now.instanceId)
    await settled(cluster.members)
  })

  await t.test('x-svc-retry: a request whose runner died is retried once on another node', async (t) => {
    const workers = cluster.members.filter((m) => m !== master)
    const ids: string[] = []
    for (const member of workers) ids.push(await placeOn(cluster, member, 'test/ok'))
    await settled(cluster.members)
    await answersAt(cluster.members, 'test/ok')
    for (const [headers, expected] of [[{}, 500], [{ 'x-svc-retry': '1' }, 200]] as const) {
      const answering = heldRequest(master.node, 'test/ok', pick(1500, 3000), headers)
      const home = await until('the node that works on it', async () => {
        for (const member of workers) if (await tasksOn(member.node, 'test/ok') > 0) return member
        return undefined
      })
      process.kill(home.node.runners()[0]!, 'SIGKILL')
      const answer = await answering
      t.equal(answer.status, expected, `${JSON.stringify(headers)}: ${answer.bytes.length} bytes`)
      if (expected === 500) t.match(refusal(answer), { reason: 'instance_lost', retryable: true })
      await settled(cluster.members)
    }
    const tasks = Object.values((await view(master.node)).tasks)
    t.notOk(tasks.some(({ Inference: task }) => task?.status === 'Running'), 'nothing is left running')
    for (const id of ids) await removing(master.node, id)
  })

  await t.test('T-R14: POST /admin/restart of a worker node', { skip: SHORT }, async (t) => {
    const id = await place(master.node, 'test/ok', { excluded_nodes: [master.name] })
    const home = homeOf(cluster, await instance(master.node, id))
    const opened = await openFrames(master.node, 'test/ok')
    const start = performance.now()
    await home.ask('/admin/restart', { method: 'POST' })
    const [end] = await Promise.all([endWithin(opened, 20)])
    t.ok(end !== 'hangs' && end.terminals === 1 && !end.cut && end.retryable, JSON.stringify(end))
    await until('an instance that replaces it', async () => (await instancesOf(master.node, 'test/ok'))
      .some((ring) => ring.placement?.replaces === id))
    await answersAt(cluster.members.filter((m) => m !== home), 'test/ok')
    figure(t, 'T-R14', t.passing(), { how: 'restart of a worker node', againSeconds: secondsSince(start) })
    await cluster.agreed()
    const after = await instancesOf(master.node, 'test/ok')
    t.equal(after.length, 1, 'one instance, wherever it is')
    await removing(master.node, after[0]!.instanceId)
  })
})

/** Kills a worker node once; at the end the node is back and the model is removed. */
async function nodeLost (t: Test, cluster: Cluster, master: Member): Promise<{
  ended: number[], back: number, unharmed: number }> {
  const id = await place(master.node, 'test/ok', { excluded_nodes: [master.name] })
  const home = homeOf(cluster, await instance(master.node, id))
  const rest = cluster.members.filter((m) => m !== home)
  await answersAt(rest, 'test/ok')
  const streams: Open[] = []
  for (const { node } of rest) {
    for (let n = 0; n < pick(2, 10); n++) {
      streams.push(await openFrames(node, 'test/ok'), await openEvents(node, 'test/ok'))
    }
  }
  const others = await Promise.all(rest.map(async ({ node }) =>
    await openFrames(node, 'test/b', { chunks: 60, delayMs: 50 })))
  const held = rest.map(async ({ node }) => await heldRequest(node, 'test/ok', 60_000))
  await working([home], 'test/ok', streams.length + held.length)
  const below = [home.pid(), ...descendants(home.pid())]

  const start = performance.now()
  await home.kill()
  await until('the end of all its processes', () => below.every((pid) => !alive(pid)))
  const ended = await allLost(t, streams, start)
  for (const answer of await Promise.all(held)) {
    t.match([answer.status, refusal(answer)], [500, { reason: 'instance_lost', retryable: true }],
      answer.text.slice(0, 200))
  }
  // Requests to the killed node fail until the other nodes miss it.
  await answersAt(rest, 'test/ok')
  const back = secondsSince(start)
  const [now, more] = await instancesOf(master.node, 'test/ok')
  t.equal(more, undefined, 'one instance in its place')
  t.match(now?.placement, { replaces: id, origin: 'request' })
  t.not(nodesOf(now!)[0], home.node.nodeId)
  const unharmed = await Promise.all(others.map(async (each) => await endWithin(each, 15)))
  t.ok(unharmed.every((end) => end !== 'hangs' && end.kind === 'completed'),
    `streams of others go on: ${JSON.stringify(unharmed)}`)

  await home.start()
  await cluster.agreed()
  const rings = await settled(cluster.members)
  t.equal(rings.filter(({ shardAssignments: { modelId } }) => modelId === 'test/ok').length, 1,
    'the node that is back brings no second one')
  await removing(master.node, now!.instanceId)
  await settled(cluster.members)
  return { ended, back, unharmed: unharmed.length }
}
