import t from 'tap'
import { coreCluster, type CoreCluster, type CoreNode, type Owner } from './core-kit.js'
import type { QuorumSetting } from '../election/rules.js'

/** The silence timeout: three heartbeats. */
const TIMEOUT_MS = 6000

const refuses = ({ core }: CoreNode): boolean => !core.storing

async function threeVoters (t: Owner, quorum: QuorumSetting): Promise<CoreCluster> {
  const cluster = await coreCluster(t, { quorum })
  await cluster.until('all to have a vote', () => cluster.nodes.every(({ core }) =>
    core.control.voters().length === 3))
  return cluster
}

for (const quorum of [1, 'majority'] as const) {
  t.test(`a master whose disk is dead steps down, and tells at once (quorum ${quorum})`, async (t) => {
    const cluster = await threeVoters(t, quorum)
    const before = await cluster.agreed()
    const told: boolean[] = []
    before.core.disk.changed.add(() => { told.push(before.core.storing) })
    cluster.breakDisk(before)
    await cluster.run(TIMEOUT_MS)
    t.equal(before.core.session.isMaster, false, 'within one heartbeat timeout')
    t.equal(told[0], false)
    const after = await cluster.agreed(cluster.others(before))
    t.not(after.name, before.name)
    t.equal(after.core.status().quorum, 'ok')
    t.equal((await cluster.settled(after.core.commands.run('kernel.member-put',
      after.core.membership.records().find((one) => one.installId === after.installId)))).receipt.sid,
    after.core.status().leader?.sid, 'and decides')
    cluster.breakDisk(before, false)
    await cluster.until('its disk to be used again', () => !refuses(before))
    t.equal(told.at(-1), true)
    t.equal((await cluster.agreed()).name, after.name, 'without another election')
  })
}

async function brokenEverywhere (cluster: CoreCluster): Promise<CoreNode> {
  const master = await cluster.agreed()
  for (const node of cluster.nodes) cluster.breakDisk(node)
  await cluster.run(3 * TIMEOUT_MS)
  t.ok(cluster.nodes.every(refuses))
  return master
}

t.test('with one disk for all, dead', async (t) => {
  await t.test('a master with quorum 1 stays, since no other could follow it', async (t) => {
    const cluster = await threeVoters(t, 1)
    const master = await brokenEverywhere(cluster)
    t.equal((await cluster.agreed()).name, master.name)
  })
  await t.test('a majority is lost, and all say so', async (t) => {
    const cluster = await threeVoters(t, 'majority')
    await brokenEverywhere(cluster)
    for (const { core } of cluster.nodes) {
      t.match(core.status(), { quorum: 'lost', leader: null, storing: false })
    }
  })
  await t.test('one of three: the others decide', async (t) => {
    const cluster = await threeVoters(t, 'majority')
    const master = await cluster.agreed()
    const [one, other] = cluster.others(master)
    cluster.breakDisk(one!)
    await cluster.run(TIMEOUT_MS)
    t.match([master, one!, other!].map(({ core }) => core.status().quorum), ['ok', 'ok', 'ok'])
    cluster.breakDisk(other!)
    await cluster.run(TIMEOUT_MS)
    t.match([master, one!, other!].map(({ core }) => core.status().quorum), ['lost', 'lost', 'lost'],
      'two of three cannot be written')
  })
})

t.test('a lone node goes on without its disk, and says so', async (t) => {
  const cluster = await coreCluster(t, { nodes: 1 })
  cluster.breakDisk(cluster.at(0))
  await cluster.run(TIMEOUT_MS)
  t.equal(cluster.at(0).core.storing, false)
  t.ok(cluster.at(0).core.session.isMaster)
  cluster.breakDisk(cluster.at(0), false)
  await cluster.until('its disk to be used again', () => cluster.at(0).core.storing)
})
