/** A real llama.cpp over several nodes loses a process or node; streams end once and the model recovers. */
import t from 'tap'
import { alive, descendants, parentOf } from '../node/proc.js'
import { pick, until } from '../node/kit.js'
import type { Cluster, Member } from '../node/cluster-kit.js'
import {
  openStream, DONOR, DRIVER, ENDLESS, instancesAt, place, processes, ready, remove, answerOf, skip, started
} from './nodes-kit.js'
import type { Placed, Sharding, Test } from './nodes-kit.js'

/** How often each fault is injected. */
const TIMES = Number(process.env['SVC_TEST_TIMES'] ?? pick(1, 10))

const programsOf = (cluster: Cluster): number[] => [DRIVER, DONOR].flatMap((name) => processes(cluster, name))

/**
 * Injects a fault into an instance while streams from it are open at the members `at`. Each stream must end
 * once with `instance_lost`, the model must recover and give the same answers, and the processes that `fault`
 * returns must be gone.
 */
async function survives (
  t: Test, at: readonly Member[], fault: () => Promise<readonly number[]>, text: string | undefined
): Promise<void> {
  const streams = await Promise.all(at.map((member) => openStream(member, ENDLESS, { max_tokens: 8000 })))
  const gone = await fault()
  const ends = await Promise.all(streams.map(({ end }) => end))
  for (const events of ends) {
    t.same(events.flatMap(({ error }) => error?.reason ?? []), ['instance_lost'], 'the stream is told once')
  }
  await until('the lost instance is gone', () => gone.every((pid) => !alive(pid)))
  for (const member of at) {
    await until(`the same answer at ${member.name}`, async () => await answerOf(member, ENDLESS) === text,
      { seconds: 90 })
  }
  await until('it is ready', async () => await ready(at[0]!, ENDLESS))
}

for (const sharding of ['Pipeline', 'Tensor'] as const) {
  t.test(`kill -9 of each process, ${sharding}`, { skip, timeout: 300_000 * TIMES }, async (t) => {
    const cluster = await started(t, 3)
    const { master } = await cluster.agreed()
    // A tensor split exchanges data often per token, which is slow on a busy machine, so two nodes suffice.
    const [nodes, count] = sharding === 'Tensor' ? [2, 3] : [3, 3]
    for (let time = 1; time <= TIMES; time++) {
      for (let rank = 0; rank < count; rank++) {
        for (const what of ['program', 'runner']) {
          await t.test(`the ${what} of process ${rank}, time ${time}`, async (t) => {
            // A new instance each time, since a runner that fails three times in a minute is not restarted.
            const placed = await place(t, master, ENDLESS, nodes, sharding)
            const text = await answerOf(master, ENDLESS)
            t.ok(text)
            t.equal(programsOf(cluster).length, count)
            const pid = programsOf(cluster)[rank]!
            const victim = what === 'program' ? pid : parentOf(pid)
            await survives(t, cluster.up(), async () => {
              process.kill(victim, 'SIGKILL')
              return [pid, victim]
            }, text)
            t.equal(programsOf(cluster).length, count, 'no process more than before')
            t.same((await instancesAt(master)).map(({ instanceId }) => instanceId), [placed.instanceId])
            await remove(t, cluster, master, placed)
          })
        }
      }
    }
  })
}

/** The members that run an instance, the driver's node first. */
function nodesOf ({ members }: Cluster, { driverNode, shardAssignments }: Placed): Member[] {
  const ids = Object.keys(shardAssignments.nodeToRunner).sort((a) => a === driverNode ? -1 : 1)
  return ids.map((id) => members.find((member) => member.up && member.node.nodeId === id)!)
}

t.test('loss of nodes and links', { skip, timeout: 300_000 * TIMES }, async (t) => {
  const cluster = await started(t, 4, { proxied: true })
  const { master } = await cluster.agreed()
  for (const sharding of ['Pipeline', 'Tensor'] as const) {
    for (let time = 1; time <= TIMES; time++) await losses(t, { cluster, master, sharding, time })
  }
})

interface Loss { cluster: Cluster, master: Member, sharding: Sharding, time: number }

/**
 * The master holds no shard. Its loss ends the session, so the streams would report the end of the session
 * instead of a lost instance.
 */
async function losses (t: Test, { cluster, master, sharding, time }: Loss): Promise<void> {
  await place(t, master, ENDLESS, 2, sharding, [master.node.nodeId])
  const text = await answerOf(master, ENDLESS)
  t.ok(text)
  const now = async (): Promise<Placed> => (await instancesAt(master))[0]!
  for (const [rank, name] of ['driver', 'donor'].entries()) {
    await t.test(`kill -9 of the ${name}'s node, ${sharding}, time ${time}`, async (t) => {
      const victim = nodesOf(cluster, await now())[rank]!
      const children = descendants(victim.pid())
      const others = cluster.up().filter((member) => member !== victim)
      try {
        await survives(t, others, async () => {
          // Only the node is killed; its runners must notice and exit.
          for (const pid of [victim.node.pid, victim.pid()]) process.kill(pid, 'SIGKILL')
          await until('its processes are gone', () => !children.some(alive))
          await victim.kill()
          return children
        }, text)
        t.notOk(nodesOf(cluster, await now()).includes(victim))
      } finally {
        // The next fault would leave a single node, on which a model over two nodes cannot be placed.
        await victim.start()
        await cluster.agreed()
      }
    })
  }
  for (const what of ['heals', 'stays cut']) {
    await t.test(`a link to the donor that ${what}, ${sharding}, time ${time}`, async (t) => {
      const { instanceId } = await now()
      const [driver, donor] = nodesOf(cluster, await now())
      const [before] = processes(cluster, DRIVER)
      try {
        await survives(t, [master], async () => {
          cluster.cut(driver!, donor)
          await until('the driver notices', () => !alive(before!))
          if (what === 'heals') cluster.heal(driver!, donor)
          return [before!]
        }, text)
        const there = nodesOf(cluster, await now())
        if (what === 'heals') t.equal((await now()).instanceId, instanceId, 'it is not moved')
        else t.notOk(there.includes(driver!) && there.includes(donor!), 'over nodes that are linked')
      } finally {
        cluster.heal(driver!, donor)
        await cluster.agreed()
      }
    })
  }
  await remove(t, cluster, master, await now())
}
