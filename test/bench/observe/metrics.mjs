// Duration of GET /metrics on a node with 50 instances, each with its own model and runner.
import { figure } from '../lib/report.mjs'
import { quantile } from '../lib/stats.mjs'
import { withNode } from './paced.mjs'

const INSTANCES = 50
const AT_ONCE = 2
const LIMIT_MS = 10
const WARM = 20

/** Durations and bodies of repeated GET /metrics requests. */
async function look (client, requests) {
  await client.times('/metrics', WARM)
  const times = await client.times('/metrics', requests)
  const text = (await client.ask('GET', '/metrics')).body.toString()
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return { times, series: lines.length, kib: text.length / 1024 }
}

export default {
  title: 'GET /metrics',
  async run ({ short }) {
    const requests = short ? 100 : 1000
    const results = await withNode(async (client) => {
      const none = await look(client, requests)
      const left = Array.from({ length: INSTANCES }, (_, n) => n)
      await Promise.all(Array.from({ length: AT_ONCE }, async () => {
        for (let n = left.shift(); n !== undefined; n = left.shift()) await client.place(n)
      }))
      const { supervisorRunners } = await client.node.json('/v1/diagnostics/node')
      const ready = supervisorRunners.filter(({ statusKind }) => statusKind === 'RunnerReady').length
      if (ready !== INSTANCES) throw new Error(`${ready} of ${INSTANCES} runners are ready`)
      await client.tokens(50, 1)
      return { 0: none, [INSTANCES]: await look(client, requests) }
    }, { models: INSTANCES })
    return {
      columns: ['instances', 'series', 'KiB', 'p50', 'p99', 'max'],
      rows: Object.entries(results).map(([count, { times, series, kib }]) => [count, `${series}`, figure(kib),
        ...[0.5, 0.99, 1].map((q) => figure(quantile(times, q), 'ms'))]),
      targets: [{
        name: `GET /metrics, ${INSTANCES} instances, p99`, value: quantile(results[INSTANCES].times, 0.99),
        limit: LIMIT_MS, unit: 'ms'
      }],
      notes: [`${requests} requests, one after the other; every instance has a runner process of its own`],
      data: results
    }
  }
}
