// CPU time that idle nodes with default settings and models use in two minutes: each node's main process, and
// all its processes together.
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuMs } from '../lib/proc.mjs'
import { source } from '../lib/paths.mjs'
import { figure } from '../lib/report.mjs'
import { kit, until, withTeardown } from './processes.mjs'

const { descendants } = await source('test/node/proc.ts')
/**
 * Delay in ms before the measurement, in which the nodes finish placing models and measuring links, and V8
 * compiles hot code and compacts the heap once.
 */
const SETTLE_MS = 180_000
const LIMITS = { 3: 1, 12: 2.5 }

const cpuOf = (pids) => pids.reduce((sum, pid) => sum + (cpuMs(pid) ?? 0), 0)

async function idle (count, seconds) {
  return await withTeardown(async (t) => {
    const { members } = await kit.startCluster(t, { nodes: count, config: {} })
    await Promise.all(members.map(async (member) => {
      await until(`/readyz of ${member.name}`, async () => (await member.ask('/readyz'))?.status === 200,
        { seconds: 300, everyMs: 1000 })
    }))
    await sleep(SETTLE_MS)
    const pids = members.map((member) => [member.node.child.pid, ...descendants(member.node.child.pid)])
    const nodes = members.map((member) => member.pid())
    const read = () => [pids.map(cpuOf), nodes.map((pid) => cpuMs(pid) ?? 0)]
    const start = performance.now()
    const before = read()
    await sleep(seconds * 1000)
    const after = read()
    const wall = performance.now() - start
    const [whole, node] = after.map((list, i) => list.map((ms, n) => (ms - before[i][n]) / wall * 100))
    return { count, whole, node }
  })
}

export default {
  title: 'CPU of an idle cluster',
  async run ({ short }) {
    const results = []
    for (const count of [3, 12]) results.push(await idle(count, short ? 30 : 120))
    const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length
    return {
      columns: ['nodes', 'node process, mean', 'highest', 'with its runners and launcher, mean', 'highest'],
      rows: results.map(({ count, whole, node }) => [String(count), ...[node, whole].flatMap((list) =>
        [figure(mean(list), '%'), figure(Math.max(...list), '%')])]),
      targets: results.map(({ count, whole }) =>
        ({ name: `each of ${count} nodes`, value: Math.max(...whole), limit: LIMITS[count], unit: '%' })),
      notes: ['of one core; user and system time by /proc, after three minutes of rest'],
      data: { results }
    }
  }
}
