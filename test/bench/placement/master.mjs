// How and how soon the streams on all nodes end when the master is killed.
import { figure } from '../lib/report.mjs'
import { quantile } from '../lib/stats.mjs'
import { ENGINE, kit, until, withCluster } from './cluster.mjs'

const STREAMS = 200
const AT_ONCE = 20

async function round (cluster) {
  const { master, others, sessionId } = await cluster.agreed()
  const dead = master.node
  const streams = []
  while (streams.length < STREAMS) {
    streams.push(...await Promise.all(Array.from({ length: AT_ONCE }, async (_, n) => {
      const { node } = cluster.members[n % cluster.members.length]
      return await (n % 2 === 0 ? kit.openFrames : kit.openEvents)(node, ENGINE)
    })))
  }
  const start = performance.now()
  await master.kill()
  const ends = await Promise.all(streams.map((each) => kit.endWithin(each, 15)))
  await cluster.agreed({ not: sessionId })
  await Promise.all(others.map(({ node }) =>
    until('an answer again', async () => await kit.outcomeOf(node, ENGINE) === 'completed')))
  const seconds = (performance.now() - start) / 1000
  await master.start()
  await cluster.agreed()
  const fine = (end, { at }) => at === dead
    ? end.terminals === 0 && end.cut
    : end.terminals === 1 && !end.cut
  const over = ends.filter((end) => end !== 'hangs')
  return {
    hung: ends.length - over.length,
    wrong: ends.filter((end, n) => end !== 'hangs' && !fine(end, streams[n])).length,
    took: over.map((end) => end.seconds - start / 1000), seconds
  }
}

export default {
  title: '200 streams when the master is killed',
  async run ({ short, rounds = short ? 1 : 10 }) {
    return await withCluster(async (cluster) => {
      for (const member of cluster.members) await kit.placeOn(cluster, member, ENGINE)
      await kit.settled(cluster.members)
      const results = []
      for (let n = 0; n < rounds; n++) {
        results.push(await round(cluster))
        for (const member of cluster.members) await kit.placeOn(cluster, member, ENGINE)
        await kit.settled(cluster.members)
      }
      const took = results.flatMap((r) => r.took)
      const sum = (name) => results.reduce((all, r) => all + r[name], 0)
      const row = (name, values) => [name, ...[0.5, 0.99, 1].map((q) => figure(quantile(values, q), 's'))]
      return {
        columns: ['from the kill', 'p50', 'p99', 'max'],
        rows: [row('end of a stream', took),
          row('until both other nodes answer again', results.map(({ seconds }) => seconds))],
        targets: [
          { name: 'streams without an end after 15 s', value: sum('hung'), limit: 0 },
          { name: 'streams without exactly one end', value: sum('wrong'), limit: 0 }
        ],
        notes: [`${rounds} kills with ${STREAMS} streams over three nodes, an instance on each; a client ` +
          'of the killed node itself sees its connection cut, every other one gets one error event'],
        data: { rounds, hung: sum('hung'), wrong: sum('wrong'), took: took.length }
      }
    })
  }
}
