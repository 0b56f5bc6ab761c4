import t from 'tap'
import { percentiles } from './cluster-kit.js'
import { figure, inTime, pick, secondsSince } from './kit.js'
import {
  answersAt, endWithin, instancesCluster, nodesOf, openEvents, openFrames, place, placeOn, settled, view
} from './instances-kit.js'
import type { Open } from './instances-kit.js'

/** How a stream from a runner on the master may end; usually `instance_lost` precedes the new session. */
const ENDS = ['session_changed', 'instance_lost']

t.test('the master dies while every node serves', async (t) => {
  const cluster = await instancesCluster(t, { plugins: { runners: { max_concurrent: 256 } } })
  const before = await cluster.agreed()
  for (const member of cluster.members) await placeOn(cluster, member, 'test/ok')
  await place(before.master.node, 'test/b')
  const rings = await settled(cluster.members)
  t.equal(rings.length, 4, 'an instance on each node, and one of another model')
  const pids = before.others.map(({ node }) => node.runners())

  const count = pick(40, 200)
  const opened: Open[] = []
  for (let n = 0; n < count; n++) {
    const { node } = cluster.members[n % cluster.members.length]!
    opened.push(await (n % 2 === 0 ? openFrames : openEvents)(node, 'test/ok'))
  }

  const start = performance.now()
  await before.master.kill()
  const ends = await Promise.all(opened.map(async (each) => ({ each, end: await endWithin(each, 15) })))
  let hung = 0
  let wrong = 0
  const took: number[] = []
  for (const { each, end } of ends) {
    if (end === 'hangs') { hung++; continue }
    took.push(end.seconds - start / 1000)
    const fine = each.at === before.master.node
      ? end.cut && end.terminals === 0
      : !end.cut && end.terminals === 1 && ENDS.includes(end.reason ?? '') && end.retryable === true
    if (!fine) wrong++
    if (!fine) t.fail(`a stream of ${each.at === before.master.node ? 'the dead' : 'a living'} node: ` +
      JSON.stringify(end))
  }
  figure(t, 'T-R13', hung === 0 && wrong === 0, { streams: count, hung, wrong,
    endedSeconds: took.length === 0 ? null : percentiles(took.map((s) => Math.round(s * 1000) / 1000)) })

  const next = await cluster.agreed({ not: before.sessionId })
  await t.test('T-E15: instances keep their ids, and answer again', async (t) => {
    await answersAt(before.others, 'test/ok')
    const answered = secondsSince(start)
    const there = await view(next.master.node)
    for (const ring of rings) {
      const [home] = nodesOf(ring)
      if (home === before.master.node.nodeId) continue
      t.ok(there.instances[ring.instanceId], `${ring.instanceId} is carried`)
    }
    before.others.forEach(({ node }, n) => {
      t.ok(pids[n]!.every((pid) => node.runners().includes(pid)), 'a healthy runner is not started anew')
    })
    await answersAt(before.others, 'test/b')
    const both = secondsSince(start)
    figure(t, 'T-E15', t.passing() && inTime(both, 13), { secondsToSpeech: answered,
      secondsToTheOtherModel: both })
  })

  await t.test('an instance of the dead node is not duplicated when that node is back', async (t) => {
    await before.master.start()
    await cluster.agreed()
    const after = await settled(cluster.members)
    const places = after.map((ring) => `${ring.shardAssignments.modelId} ${nodesOf(ring).join()}`)
    t.equal(new Set(places).size, places.length, `no two of a model on one node: ${places.join('; ')}`)
    await answersAt(cluster.members, 'test/ok')
  })
})
