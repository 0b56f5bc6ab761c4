// SIGKILL to a node with the embedded voice's runner: time until each stream that depends on it has a
// terminal event, and until the voice speaks elsewhere. Other streams must continue.
import { figure } from '../lib/report.mjs'
import { quantile } from '../lib/stats.mjs'
import { ended, ENGINE, kit, openVoice, speaks, VOICE, withCluster } from './cluster.mjs'

const STREAMS = 4

async function round (cluster, master) {
  const id = await kit.place(master.node, VOICE, { excluded_nodes: [master.name] })
  const home = kit.homeOf(cluster, await kit.instance(master.node, id))
  const rest = cluster.members.filter((m) => m !== home)
  for (const { node } of rest) await speaks(node)
  const streams = []
  const others = []
  for (const { node } of rest) {
    for (let n = 0; n < STREAMS; n++) streams.push(await openVoice(node))
    for (let n = 0; n < STREAMS; n++) {
      others.push(await kit.openFrames(node, ENGINE, { chunks: 100, delayMs: 50 }))
    }
  }
  const start = performance.now()
  await home.kill()
  const elsewhere = Promise.all(rest.map(({ node }) => speaks(node)))
    .then(() => (performance.now() - start) / 1000)
  const ends = await Promise.all(streams.map((each) => ended(each)))
  const seconds = await elsewhere
  const went = await Promise.all(others.map((each) => kit.endWithin(each, 15)))
  const harmed = went.filter((end) => end.kind !== 'completed' || end.terminals !== 1)
  await home.start()
  await cluster.agreed()
  for (const { instanceId } of await kit.instancesOf(master.node, VOICE)) {
    await kit.removing(master.node, instanceId, '?drain_seconds=0')
  }
  await kit.settled(cluster.members)
  return { ends: ends.map((end) => ({ ...end, seconds: (end.at - start) / 1000 })), seconds, harmed,
    others: others.length }
}

export default {
  title: 'kill -9 of a node',
  async run ({ short, rounds = short ? 3 : 30 }) {
    return await withCluster(async (cluster) => {
      const { master } = await cluster.agreed()
      await kit.placeOn(cluster, master, ENGINE)
      const results = []
      for (let n = 0; n < rounds; n++) results.push(await round(cluster, master))
      const ends = results.flatMap((r) => r.ends)
      const took = ends.map(({ seconds }) => seconds)
      const back = results.map(({ seconds }) => seconds)
      const harmed = results.flatMap((r) => r.harmed)
      const others = results.reduce((all, r) => all + r.others, 0)
      const row = (name, values) => [name, ...[0.5, 0.99, 1].map((q) => figure(quantile(values, q), 's'))]
      return {
        columns: ['from the kill', 'p50', 'p99', 'max'],
        rows: [
          row('terminal of a stream that depends on the node', took),
          row('until the voice speaks at both other nodes, from elsewhere', back)
        ],
        targets: [
          { name: 'dependent streams ended, p99', value: quantile(took, 0.99), limit: 2.5, unit: 's' },
          { name: 'dependent streams without exactly one terminal',
            value: ends.filter(({ terminals }) => terminals !== 1).length, limit: 0 },
          { name: 'other streams that did not end as they should', value: harmed.length, limit: 0 },
          { name: 'serving elsewhere, longest', value: Math.max(...back), limit: 10, unit: 's' }
        ],
        notes: [`${rounds} kills of a worker node of three; ${ends.length} streams depended on it, ` +
          `${others - harmed.length} of ${others} others went on to their end; heartbeat 2 s`],
        data: { rounds, took, back, others, harmed }
      }
    })
  }
}
