// Memory that a node uses for closed sessions. All nodes run in one process and share its heap.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { figure } from '../lib/report.mjs'
import { advanceUntil, createCells, manualClock } from './cells.mjs'

const NODES = 5

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc')

async function heap () {
  for (let n = 0; n < 3; n++) {
    collect()
    await new Promise((resolve) => { setImmediate(resolve) })
  }
  return process.memoryUsage().heapUsed
}

export default {
  title: 'Memory after many sessions',
  async run ({ short }) {
    const sessions = short ? 20 : 200
    const clock = manualClock()
    const cells = createCells({ count: NODES, clock })
    cells.start()
    const samples = []
    try {
      let now = await advanceUntil(clock, 'the first session', () => cells.session())
      for (let n = 1; n <= sessions; n++) {
        const { sid, master } = now
        const rest = cells.all().filter((cell) => cell !== master)
        cells.isolate(master)
        await advanceUntil(clock, 'the next session', () => {
          const next = cells.session(rest)
          return next !== undefined && next.sid !== sid && next
        })
        cells.rejoin(master)
        now = await advanceUntil(clock, 'all in it', () => cells.session())
        await clock.advance(4000)
        if (n === 5 || n === sessions || n % 20 === 0) samples.push({ sessions: n, heap: await heap() })
      }
    } finally {
      cells.stop()
    }
    const first = samples[0].heap
    const last = samples.at(-1).heap
    const mb = (bytes) => figure(bytes / 1e6, 'MB')
    return {
      columns: ['sessions', 'heap of the process', 'per node'],
      rows: [samples[0], samples.at(-1)].map((s) =>
        [`${s.sessions}`, mb(s.heap), mb(s.heap / NODES)]),
      targets: [{ name: `growth from session 5 to ${sessions}`, value: (last / first - 1) * 100, limit: 10,
        unit: '%' }],
      notes: [`${NODES} nodes in one process under virtual time; heap after collection, with the code`],
      data: samples
    }
  }
}
