import t from 'tap'
import { quiet, SILENCE_MS, spread, startCluster } from './cluster-kit.js'
import { figure, inTime, pick, secondsSince, sleep } from './kit.js'

t.test('T-E09: all start at once', async (t) => {
  const cluster = await startCluster(t, { config: quiet, nodes: pick(3, 5) })
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
  const { p50, max } = spread(times)
  figure(t, 'T-E09', t.passing() && inTime(max, 5), { nodes: cluster.members.length, p50, max })
})
