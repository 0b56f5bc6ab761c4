// Stores of many tiny models: CPU seconds per model until a started node and another node list all models.
import { cpuMs } from '../lib/proc.mjs'
import { figure } from '../lib/report.mjs'
import { makeModel } from './model.mjs'
import { stage, together, until, withFolder, withSite } from './site.mjs'

const FILE_BYTES = 1024
/** Limit on the cost per model in the largest store relative to the smallest; linear cost gives 1. */
const GROWTH = 1.3

const idOf = (i) => `bench/m${String(i).padStart(5, '0')}`

/** Pid of the node process, not of its launcher. */
async function pidOf (node) {
  const { processes } = await node.ask('/v1/diagnostics/node')
  return processes.find(({ role }) => role === 'node').pid
}

/** Waits until every node shows all models; returns the CPU seconds of the first node since its start. */
async function settled ({ nodes: [first, ...others] }, count) {
  const pid = await pidOf(first)
  for (const node of [first, ...others]) {
    await until(`${count} models at ${node.name}`, async () => {
      const { data } = await node.ask('/v1/models')
      return data.filter(({ id, installed }) => id.startsWith('bench/') && installed).length === count
    }, { seconds: 600, everyMs: 2000 })
  }
  return cpuMs(pid) / 1000
}

/** Measures the first start, which hashes and imports every folder, and a second start. */
async function measure (count) {
  return await withFolder(async (folder) => {
    for (let i = 0; i < count; i++) makeModel(folder, idOf(i), [{ path: 'weights.bin', bytes: FILE_BYTES }])
    return await withSite({ folder }, async ({ first, others }) => {
      const nodes = [first, ...others]
      const taken = await settled({ nodes }, count)
      const { entries } = await first.ask('/store/registry')
      // The last model no longer fits in the store node's document, but can be staged anyway.
      await stage(first, idOf(count - 1), others)
      await first.stop()
      await first.start()
      await together(nodes)
      const again = await settled({ nodes }, count)
      return { count, registry: entries.length, taken, again }
    })
  })
}

export default {
  title: 'A store of many models',
  async run ({ short }) {
    const counts = short ? [250, 500, 1000] : [500, 1000, 2000]
    const results = []
    const idle = await measure(1)
    for (const count of counts) results.push(await measure(count))
    const perModel = ({ count, ...of }, field) => (of[field] - idle[field]) / count
    const growth = (field) => perModel(results.at(-1), field) / perModel(results[0], field)
    return {
      columns: ['models', 'in the registry', 'first start, CPU s', 'CPU ms a model', 'next start', 'a model'],
      rows: results.map((result) => [`${result.count}`, `${result.registry}`,
        ...['taken', 'again'].flatMap((field) =>
          [figure(result[field]), figure(perModel(result, field) * 1000)])]),
      targets: [
        { name: 'first start, CPU a model, largest over smallest', value: growth('taken'), limit: GROWTH },
        { name: 'next start, CPU a model, largest over smallest', value: growth('again'), limit: GROWTH }
      ],
      notes: [
        'the other node has staged the last model, too',
        `models of a card and ${FILE_BYTES} bytes; CPU of the store's node until it and another node show ` +
          'all of them in GET /v1/models',
        `a store of one model costs ${figure(idle.taken)} s and ${figure(idle.again)} s, which is taken off`
      ],
      data: { idle, results }
    }
  }
}
