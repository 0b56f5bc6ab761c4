// SIGKILL to a runner of the embedded voice: time until each client has its one terminal event, and until the
// voice speaks again. Clients are connected to the runner's node and to another node.
import { figure } from '../lib/report.mjs'
import { quantile } from '../lib/stats.mjs'
import { ended, kit, openVoice, ready, speaks, VOICE, withCluster } from './cluster.mjs'

const STREAMS = 2

/** Kills one runner; every round uses a new instance, so that no restart limit is reached. */
async function round (cluster, { master, worker }) {
  const id = await kit.placeOn(cluster, worker, VOICE)
  await speaks(master.node)
  const { pid } = await ready(worker.node, VOICE)
  const clients = [master, worker].flatMap(({ node }) => Array.from({ length: STREAMS }, () => node))
  const streams = []
  for (const node of clients) streams.push(await openVoice(node))
  const start = performance.now()
  process.kill(pid, 'SIGKILL')
  const again = speaks(master.node).then(() => (performance.now() - start) / 1000)
  const ends = await Promise.all(streams.map((each) => ended(each)))
  const seconds = await again
  await kit.removing(master.node, id, '?drain_seconds=0')
  await kit.settled(cluster.members)
  return { ends: ends.map((end) => ({ ...end, ms: end.at - start })), seconds }
}

export default {
  title: 'kill -9 of a runner',
  async run ({ short, rounds = short ? 5 : 30 }) {
    return await withCluster(async (cluster) => {
      const { master, others: [worker] } = await cluster.agreed()
      const results = []
      for (let n = 0; n < rounds; n++) results.push(await round(cluster, { master, worker }))
      const ends = results.flatMap((r) => r.ends)
      const [away, own] = [ends.filter((_, n) => n % (2 * STREAMS) < STREAMS),
        ends.filter((_, n) => n % (2 * STREAMS) >= STREAMS)].map((list) => list.map(({ ms }) => ms))
      const again = results.map(({ seconds }) => seconds)
      const row = (name, values, unit) =>
        [name, ...[0.5, 0.99, 1].map((q) => figure(quantile(values, q), unit))]
      return {
        columns: ['from the kill', 'p50', 'p99', 'max'],
        rows: [
          row("terminal at a client of the runner's node", own, 'ms'),
          row('terminal at a client of another node', away, 'ms'),
          row('until the voice speaks again', again, 's')
        ],
        targets: [
          { name: 'terminal at the client, p99', value: quantile([...own, ...away], 0.99), limit: 300,
            unit: 'ms' },
          { name: 'speaks again, longest', value: Math.max(...again), limit: 5, unit: 's' },
          { name: 'streams without exactly one terminal instance_lost',
            value: ends.filter((e) => e.terminals !== 1 || e.reason !== 'instance_lost').length, limit: 0 }
        ],
        notes: [`${rounds} kills with ${2 * STREAMS} streams of ${VOICE} each; three nodes on this ` +
          'machine; asked every 10 ms whether it speaks again, which is a whole request'],
        data: { rounds, own, away, again }
      }
    })
  }
}
