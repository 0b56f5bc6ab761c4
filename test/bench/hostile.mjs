// Latency of /healthz on the master of three nodes while hostile models and bodies arrive.
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { join } from 'node:path'
import { kit, withTeardown } from './cluster/processes.mjs'
import { newHome, removeHome, request } from './lib/node.mjs'
import { source } from './lib/paths.mjs'
import { figure } from './lib/report.mjs'
import { median, quantile } from './lib/stats.mjs'

const { attack } = await source('test/node/hostile-kit.ts')

const SAMPLE_MS = 20
const LIMIT_MS = 250

/** Samples the latency of /healthz until `work` is done. */
async function knocking (url, agent, work) {
  let over = false
  const done = work.finally(() => { over = true })
  const times = []
  while (!over) {
    times.push((await request({ agent, url: `${url}/healthz` })).totalMs)
    await sleep(SAMPLE_MS)
  }
  return { times, result: await done }
}

async function measure (t, folder, short) {
  const store = { model_store: { store_path: join(folder, 'store'), hub: { enabled: false } } }
  const cluster = await kit.startCluster(t, {
    nodes: 3, heartbeatMs: 2000, configOf: (number) => number === 1 ? store : {}
  })
  const { master, term } = await cluster.agreed()
  const agent = new http.Agent({ keepAlive: true })
  t.teardown(() => { agent.destroy() })
  const { url } = master.node
  const { times: idle } = await knocking(url, agent, sleep(short ? 5000 : 20_000))
  const { times: busy, result } = await knocking(url, agent, attack(t, master, short ? 300 : 3000, 7))
  const after = await cluster.agreed()
  const rowOf = (name, times) =>
    [name, ...[0.5, 0.99, 1].map((share) => figure(quantile(times, share), 'ms'))]
  return {
    columns: ['', 'GET /healthz p50', 'p99', 'max'],
    rows: [rowOf('idle', idle), rowOf('hostile input', busy)],
    targets: [
      {
        name: '/healthz p99 while hostile input runs', value: quantile(busy, 0.99), limit: LIMIT_MS,
        unit: 'ms'
      },
      { name: 'elections meanwhile', value: after.term - term, limit: 0 },
      { name: 'untyped answers', value: result.odd.length, limit: 0 }
    ],
    notes: [
      `${result.asked} inputs, ${result.models} of them models that are pulled from a folder, two of each ` +
        `kind at once; ${result.refused} were refused`
    ],
    data: { idle: median(idle), busy, result }
  }
}

export default {
  title: 'The master of three nodes while it gets hostile models and bodies',
  async run ({ short }) {
    const folder = newHome()
    try {
      return await withTeardown(async (t) => await measure(t, folder, short))
    } finally {
      removeHome(folder)
    }
  }
}
