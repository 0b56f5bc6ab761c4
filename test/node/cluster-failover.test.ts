import t from 'tap'
import { randomUUID } from 'node:crypto'
import {
  acknowledged, HEARTBEAT_MS, quiet, receiptOf, SILENCE_MS, percentiles, startCluster
} from './cluster-kit.js'
import { figure, full, inTime, pick, secondsSince, sleep } from './kit.js'
import type { Agreement, Cluster } from './cluster-kit.js'

/** Kills the master, waits for the next master and its first command, and restarts the killed node. */
async function failOver (cluster: Cluster, before: Agreement): Promise<{
  elected: number, commanded: number, after: Agreement
}> {
  const dead = before.master
  const start = performance.now()
  await dead.kill()
  const next = await cluster.agreed({ not: before.sessionId })
  const elected = secondsSince(start)
  await acknowledged(cluster.up())
  const commanded = secondsSince(start)
  await dead.start()
  const after = await cluster.agreed()
  return { elected, commanded, after: { ...after, sessionId: next.sessionId } }
}

t.test('three nodes without inference', async (t) => {
  const cluster = await startCluster(t, { config: quiet, heartbeatMs: HEARTBEAT_MS })

  await t.test('T-E18: one command id, sent to two nodes at once and again after a failover', async (t) => {
    const before = await cluster.agreed()
    const id = randomUUID()
    const [one, two] = await Promise.all(before.others.map((m) => m.touch(id)))
    t.match([one?.status, two?.status], [200, 200], `${one?.text} ${two?.text}`)
    t.strictSame(receiptOf(one), receiptOf(two), 'the same answer, so one effect')
    t.equal(receiptOf(one)?.sid, before.sessionId)
    const other = receiptOf(await before.master.touch())
    t.ok(other!.seq > receiptOf(one)!.seq, 'another command is another entry')
    await failOver(cluster, before)
    const [again] = cluster.up()
    t.strictSame(receiptOf(await again!.touch(id)), receiptOf(one), 'the next master knows it')
    figure(t, 'T-E18', t.passing(), { effects: 1 })
  })

  await t.test('T-E01: kill -9 of the master', async (t) => {
    const limit = 3
    await kills(t, cluster, pick(1, 30), limit)
  })

  await t.test('T-E08: a master that is killed and restarts at once', async (t) => {
    const rounds = pick(2, 50)
    let slowest = 0
    for (let n = 0; n < rounds; n++) {
      const { master } = await cluster.agreed()
      const start = performance.now()
      await master.kill()
      await master.start()
      await cluster.agreed({ seconds: 60 })
      slowest = Math.max(slowest, secondsSince(start))
    }
    await acknowledged(cluster.up())
    figure(t, 'T-E08', t.passing(), { rounds, maxSeconds: slowest })
  })

  await t.test('T-E03: a short pause of the master causes no election', async (t) => {
    const before = await cluster.agreed()
    before.master.pause()
    await sleep(SILENCE_MS * pick(0.4, 2 / 3))
    before.master.cont()
    await acknowledged([before.master])
    // Long enough for another node to miss the master and start an election.
    await sleep(SILENCE_MS)
    const after = await cluster.agreed()
    t.equal(after.sessionId, before.sessionId, 'the same session')
    t.equal(after.term, before.term, 'in the same term')
    t.equal(after.master.name, before.master.name)
    figure(t, 'T-E03', t.passing(), { elections: after.term - before.term })
  })

  await t.test('T-E02: a master resumed after a long pause acknowledges nothing', async (t) => {
    const before = await cluster.agreed()
    const sleeper = before.master
    const start = performance.now()
    sleeper.pause()
    // The commands wait in the paused master's sockets and are the first input after it resumes.
    const asked = Array.from({ length: 5 }, () => sleeper.touch(undefined, 60_000))
    const next = await cluster.agreed({ on: before.others, not: before.sessionId })
    const elected = secondsSince(start)
    const receipt = await acknowledged(before.others)
    t.equal(receipt.sid, next.sessionId)
    await sleep(Math.max(0, pick(SILENCE_MS * 2, 20_000) - elected * 1000))
    sleeper.cont()
    const answers = await Promise.all(asked)
    t.ok(answers.every((answer) => answer !== undefined), 'each is answered, one way or the other')
    const stale = answers.filter((answer) => receiptOf(answer)?.sid === before.sessionId)
    const after = await cluster.agreed()
    t.equal(after.sessionId, next.sessionId, 'it follows, and costs no other session')
    t.equal(after.master.name, next.master.name)
    figure(t, 'T-E02', t.passing() && stale.length === 0, { seconds: elected, staleAcks: stale.length })
  })
})

for (const nodes of full ? [5, 7] : []) {
  t.test(`T-E01: kill -9 of the master of ${nodes}`, async (t) => {
    const cluster = await startCluster(t, { config: quiet, heartbeatMs: HEARTBEAT_MS, nodes })
    await kills(t, cluster, 30, nodes === 5 ? 5 : 8)
  })
}

async function kills (t: Parameters<typeof figure>[0], cluster: Cluster, rounds: number, limit: number):
Promise<void> {
  const [elected, commanded]: number[][] = [[], []]
  let before = await cluster.agreed()
  for (let n = 0; n < rounds; n++) {
    const round = await failOver(cluster, before)
    t.not(round.after.sessionId, before.sessionId)
    elected!.push(round.elected)
    commanded!.push(round.commanded)
    before = await cluster.agreed()
  }
  const values = { nodes: cluster.members.length, rounds, toMaster: percentiles(elected!),
    toCommand: percentiles(commanded!) }
  figure(t, 'T-E01', t.passing() && inTime(values.toMaster.p95, limit), values)
}
