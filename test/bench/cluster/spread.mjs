// Time until a change on one node is visible on all others: 16 nodes in one process, real time.
import { setTimeout as sleep } from 'node:timers/promises'
import { figure } from '../lib/report.mjs'
import { quantile } from '../lib/stats.mjs'
import { createCells, systemClock } from './cells.mjs'

const NODES = 16
const LIMIT_MS = 10_000

async function until (what, look) {
  const deadline = performance.now() + LIMIT_MS
  for (;;) {
    const found = look()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) throw new Error(`timeout waiting for: ${what}`)
    await sleep(5)
  }
}

/** Calls `act`; resolves to the ms until each node (cell) shows the key. */
function seenBy (cells, observe, key, act) {
  return new Promise((resolve, reject) => {
    const times = []
    const stops = []
    const late = setTimeout(() => { reject(new Error(`only ${times.length} nodes saw ${key}`)) }, LIMIT_MS)
    const start = performance.now()
    for (const cell of cells) {
      stops.push(observe(cell, (keys) => {
        if (!keys.has(key)) return
        times.push(performance.now() - start)
        if (times.length < cells.length) return
        clearTimeout(late)
        for (const stop of stops) stop()
        resolve(times)
      }))
    }
    act()
  })
}

export default {
  title: 'A change on one node, seen on the others',
  async run ({ short }) {
    const cells = createCells({ count: NODES, clock: systemClock, heartbeatMs: 500, electionMs: 750 })
    const all = cells.all()
    for (const { core } of all) {
      core.commands.handle('bench.put', ({ key, value }) => { core.commands.write(key, value); return null })
    }
    cells.start()
    try {
      const { master } = await until('one session', () => cells.session())
      await sleep(2000)
      const observed = []
      const control = []
      for (let n = 0; n < (short ? 50 : 500); n++) {
        const writer = all[n % NODES]
        const others = all.filter((cell) => cell !== writer)
        const key = `bench/${n % 20}`
        const onReplicas = ({ core }, tell) => core.replicas.observe(({ keys }) => { tell(keys) })
        observed.push(...await seenBy(others, onReplicas, key, () => {
          writer.core.replicas.put(key, { n, state: 'RunnerReady' })
        }))
        const followers = all.filter((cell) => cell !== master)
        control.push(...await seenBy(followers, ({ core }, tell) => core.control.observe(tell), key, () => {
          void writer.core.commands.run('bench.put', { key, value: { n } })
        }))
      }
      const row = (name, values) => [name, ...[0.5, 0.95, 0.99, 1].map((q) =>
        figure(quantile(values, q), 'ms'))]
      return {
        columns: ['change', 'p50', 'p95', 'p99', 'max'],
        rows: [
          row('of a node about itself (observed document)', observed),
          row('by a command from any node (control document)', control)
        ],
        targets: [
          { name: 'observed, p99', value: quantile(observed, 0.99), limit: 100, unit: 'ms' },
          { name: 'control, p99', value: quantile(control, 0.99), limit: 100, unit: 'ms' }
        ],
        notes: [`${NODES} nodes in one process, all to all, without sockets: all share one event loop`],
        data: { observed: observed.length, control: control.length }
      }
    } finally {
      cells.stop()
    }
  }
}
