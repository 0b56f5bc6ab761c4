import t from 'tap'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { HEARTBEAT_MS, quiet, SILENCE_MS, percentiles, startCluster } from './cluster-kit.js'
import { figure, inTime, pick, secondsSince, sleep } from './kit.js'

t.test('T-E09: all nodes start at once', async (t) => {
  const cluster = await startCluster(t, { config: quiet, heartbeatMs: HEARTBEAT_MS, nodes: pick(3, 5) })
  const times: number[] = []
  for (let n = 0; n < pick(1, 30); n++) {
    await Promise.all(cluster.members.map((m) => m.kill()))
    await Promise.all(cluster.members.map((m) => m.start()))
    const start = performance.now()
    await cluster.agreed({ seconds: 60 })
    times.push(secondsSince(start))
    const { sessionId } = await cluster.agreed()
    await sleep(SILENCE_MS)
    t.equal((await cluster.agreed()).sessionId, sessionId, 'and it stays')
  }
  const { p50, max } = percentiles(times)
  figure(t, 'T-E09', t.passing() && inTime(max, 5), { nodes: cluster.members.length, p50, max })
})

t.test('all nodes start at once, with new ports and only their last addresses', async (t) => {
  const cluster = await startCluster(t, { config: quiet, anyPort: true })
  for (const member of cluster.members) await member.kill()
  await Promise.all(cluster.members.map((m) => m.start()))
  await cluster.agreed({ seconds: 60 })
  // Another process takes the first node's old port before the restart.
  const [first, ...rest] = cluster.members
  await Promise.all(cluster.members.map((m) => m.kill()))
  const taken = createServer()
  t.teardown(() => { taken.close() })
  const { members } = JSON.parse(readFileSync(join(first!.home, 'state/members.json'), 'utf8')) as
    { members: { name: string, addresses: string[] }[] }
  const port = Number(members.find(({ name }) => name === first!.name)!.addresses[0]!.split(':').at(-1))
  await new Promise<void>((resolve) => { taken.listen(port, '127.0.0.1', resolve) })
  await Promise.all(cluster.members.map((m) => m.start()))
  await cluster.agreed({ seconds: 60 })
  t.equal(rest.length, 2)
})
