// Time from a fault of the master to the next master, and to the next acknowledged command. Uses real
// processes on this machine, each behind its own proxy.
import { figure } from '../lib/report.mjs'
import { quantile } from '../lib/stats.mjs'
import { kit, withTeardown } from './processes.mjs'

const LIMITS = { 'kill -9': 3, SIGSTOP: 9, cut: 9 }

/** How to inject each fault, and how to undo it. */
const faults = {
  'kill -9': { async do (master) { await master.kill() }, async undo (master) { await master.start() } },
  SIGSTOP: { async do (master) { master.pause() }, async undo (master) { master.cont() } },
  cut: {
    async do (master, cluster) { cluster.cut(master) },
    async undo (master, cluster) { cluster.heal(master) }
  }
}

async function round (cluster, { do: hurt, undo }) {
  const { sessionId, master, others } = await cluster.agreed({ seconds: 120 })
  const start = performance.now()
  await hurt(master, cluster)
  await cluster.agreed({ on: others, not: sessionId, seconds: 120 })
  const elected = (performance.now() - start) / 1000
  await kit.acknowledged(others)
  const commanded = (performance.now() - start) / 1000
  await undo(master, cluster)
  await cluster.agreed({ seconds: 120 })
  return { elected, commanded }
}

const spread = (values) => [0.5, 0.95, 1].map((q) => figure(quantile(values, q), 's'))

export default {
  title: 'From a fault of the master to the next one',
  async run ({ short }) {
    const rows = []
    const data = []
    const targets = []
    for (const nodes of short ? [3] : [3, 5, 7]) {
      await withTeardown(async (t) => {
        const cluster = await kit.startCluster(t, { nodes, proxied: true, config: kit.quiet })
        for (const [name, fault] of Object.entries(faults)) {
          const results = []
          for (let n = 0; n < (short ? 3 : 30); n++) results.push(await round(cluster, fault))
          const elected = results.map((r) => r.elected)
          const commanded = results.map((r) => r.commanded)
          rows.push([`${nodes}`, name, ...spread(elected), ...spread(commanded)])
          data.push({ nodes, fault: name, elected, commanded })
          targets.push({ name: `${name}, ${nodes} nodes: new master, p95`, value: quantile(elected, 0.95),
            limit: LIMITS[name], unit: 's' })
        }
      })
    }
    return {
      columns: ['nodes', 'fault', 'master p50', 'p95', 'max', 'command p50', 'p95', 'max'],
      rows,
      targets,
      notes: [
        'heartbeat 2 s, election timeout 3 s, quorum 1; counted until every other node names the same new ' +
          'master, asked every 25 ms, and until one of them acknowledges POST /cluster/touch',
        'cut: a proxy before each node lets nothing through from and to the master, without closing anything'
      ],
      data
    }
  }
}
