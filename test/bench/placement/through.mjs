// Overhead of requests to a node that does not run the model. Non-streaming requests on a keep-alive
// connection alternate between this node and the runner's own node.
import http from 'node:http'
import { request } from '../lib/node.mjs'
import { figure } from '../lib/report.mjs'
import { interleave, quantile } from '../lib/stats.mjs'
import { ENGINE, kit, until, withCluster } from './cluster.mjs'

const asker = (node) => {
  const agent = new http.Agent({ keepAlive: true })
  const body = JSON.stringify({ model: ENGINE, input: 'x', instructions: '{"do":"count","chunks":1}' })
  const headers = { authorization: `Bearer ${node.token}`, 'content-type': 'application/json',
    'content-length': Buffer.byteLength(body) }
  return async () => {
    const answer = await request({ agent, url: `${node.url}/v1/audio/speech`, method: 'POST', headers, body })
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body.toString()}`)
    return { first: answer.firstMs, total: answer.totalMs }
  }
}

export default {
  title: 'A request through another node',
  async run ({ short }) {
    const rounds = short ? 300 : 3000
    return await withCluster(async (cluster) => {
      const { master, others: [worker, third] } = await cluster.agreed()
      await kit.placeOn(cluster, worker, ENGINE)
      for (const { node } of cluster.members) {
        await until('the model', async () => await kit.outcomeOf(node, ENGINE) === 'completed')
      }
      const steps = { own: asker(worker.node), master: asker(master.node), third: asker(third.node) }
      await interleave(50, steps)
      const results = await interleave(rounds, steps)
      const of = (name, part, q) => quantile(results[name].map((r) => r[part]), q)
      const added = (name, part) => of(name, part, 0.5) - of('own', part, 0.5)
      const row = (title, name) => [title, ...['first', 'total'].flatMap((part) =>
        [0.5, 0.99].map((q) => figure(of(name, part, q), 'ms'))),
      ...['first', 'total'].map((part) => name === 'own' ? '–' : figure(added(name, part), 'ms'))]
      return {
        columns: ['asked', 'first byte p50', 'p99', 'whole p50', 'p99', 'added, first byte p50', 'whole p50'],
        rows: [row("the runner's node", 'own'), row('the master', 'master'), row('a third node', 'third')],
        targets: [{ name: 'added by another node, p50 of the whole request',
          value: Math.max(added('master', 'total'), added('third', 'total')), limit: 3, unit: 'ms' }],
        notes: [`${rounds} requests each, in turn, over loopback with keep-alive; the engine answers at ` +
          'once with 1000 bytes'],
        data: Object.fromEntries(Object.keys(steps).map((name) => [name, { firstP50: of(name, 'first', 0.5),
          totalP50: of(name, 'total', 0.5), totalP99: of(name, 'total', 0.99) }]))
      }
    })
  }
}
