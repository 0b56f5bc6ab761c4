// Time until a joining process's /state equals the other nodes', from its start and from when it listens.
import { figure } from '../lib/report.mjs'
import { quantile } from '../lib/stats.mjs'
import { kit, withTeardown } from './processes.mjs'

export default {
  title: 'Joining',
  async run ({ short }) {
    const whole = []
    const listening = []
    const again = []
    for (let n = 0; n < (short ? 2 : 10); n++) {
      await withTeardown(async (t) => {
        const cluster = await kit.startCluster(t, { nodes: 3, joined: 2, config: kit.quiet })
        const joining = cluster.members[2]
        const { token } = (await cluster.joinToken(cluster.members[0])).json
        const start = performance.now()
        await joining.start({ args: ['--join', token] })
        const listens = performance.now()
        await cluster.agreed()
        await kit.sameState(cluster.members)
        whole.push((performance.now() - start) / 1000)
        listening.push((performance.now() - listens) / 1000)
        await joining.kill()
        await joining.start()
        const back = performance.now()
        await cluster.agreed()
        await kit.sameState(cluster.members)
        again.push((performance.now() - back) / 1000)
      })
    }
    const row = (name, values) => [name, ...[0.5, 0.95, 1].map((q) => figure(quantile(values, q), 's'))]
    return {
      columns: ['third of three nodes: until /state is the same', 'p50', 'p95', 'max'],
      rows: [
        row('from the start of the process, with a join token', whole),
        row('from when it listens, with a join token', listening),
        row('from when it listens, after kill -9 and a start', again)
      ],
      targets: [],
      notes: ['asked every 25 ms'],
      data: { whole, listening, again }
    }
  }
}
