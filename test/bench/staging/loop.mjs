// Event-loop delay and resident memory of both nodes during a copy.
import { setTimeout as sleep } from 'node:timers/promises'
import { figure } from '../lib/report.mjs'
import { interleave, median, pluck } from '../lib/stats.mjs'
import { alike, makeModel, settleDisk } from './model.mjs'
import { known, MIB, purge, residentBytes, stage, tooLittleRoom, withFolder, withSite } from './site.mjs'

const SAMPLE_MS = 20
const IDLE_MS = 5000
/** Allowed growth of the memory use in MiB from the smaller to the larger model. */
const FLAT_MIB = 32

/** Samples the resident memory of a process until stopped; returns the maximum in MiB. */
async function watch (pid, state) {
  let most = 0
  while (!state.over) {
    most = Math.max(most, residentBytes(pid) / MIB)
    await sleep(SAMPLE_MS)
  }
  return most
}

/** Measures both nodes during `work`: `{ store, other, seconds }`. */
async function stretch ({ first, other }, work) {
  const nodes = { store: first, other }
  const state = { over: false }
  const before = Object.values(nodes).map(({ pid }) => residentBytes(pid) / MIB)
  const watching = Object.values(nodes).map(({ pid }) => watch(pid, state))
  for (const node of Object.values(nodes)) await node.ask('/v1/bench/loop')
  const seconds = await work()
  const loops = await Promise.all(Object.values(nodes).map((node) => node.ask('/v1/bench/loop')))
  state.over = true
  const most = await Promise.all(watching)
  const after = Object.values(nodes).map(({ pid }) => residentBytes(pid) / MIB)
  const said = Object.keys(nodes).map((name, i) =>
    [name, { ...loops[i], before: before[i], most: most[i], after: after[i] }])
  return { seconds, ...Object.fromEntries(said) }
}

async function measure (site, { small, large }, rounds) {
  const copy = async ({ modelId }) => {
    await settleDisk()
    const result = await stretch(site, () => stage(site.first, modelId, [site.other]))
    await purge(site.first, modelId)
    return result
  }
  await copy(small)
  return await interleave(rounds, {
    idle: () => stretch(site, async () => { await sleep(IDLE_MS); return IDLE_MS / 1000 }),
    small: () => copy(small),
    large: () => copy(large)
  })
}

export default {
  title: 'Event loop and memory of both nodes while a model is copied',
  async run ({ short }) {
    const sizes = short ? { small: 128, large: 512 } : { small: 256, large: 2048 }
    const skipped = tooLittleRoom((sizes.small + 2 * sizes.large) * MIB)
    if (skipped !== undefined) return skipped
    return await withFolder(async (folder) => {
      const models = Object.fromEntries(Object.entries(sizes).map(([name, mib]) =>
        [name, makeModel(folder, `bench/${name}`, alike(4, mib * MIB / 4))]))
      return await withSite({ folder, probe: true }, async ({ first, others: [other] }) => {
        for (const { modelId } of Object.values(models)) await known([first, other], modelId)
        const results = await measure({ first, other }, models, short ? 2 : 3)
        const { resources } = await other.ask('/v1/diagnostics/node')
        return report(results, sizes, resources.eventLoopDelayMs)
      })
    })
  }
}

function report (results, sizes, diagnostics) {
  const of = (name, role, field) => median(pluck(pluck(results[name], role), field))
  const names = { idle: 'idle', small: `${sizes.small} MiB`, large: `${sizes.large} MiB` }
  const roles = { store: 'store', other: 'receiving node' }
  const fields = ['p50', 'p99', 'max', 'before', 'most', 'after']
  return {
    columns: ['', 'node', 'seconds', 'delay p50, ms', 'p99', 'max', 'resident before, MiB', 'most', 'after'],
    rows: Object.entries(names).flatMap(([name, text]) => Object.entries(roles).map(([role, who]) => [
      text, who, figure(median(pluck(results[name], 'seconds'))),
      ...fields.map((field) => figure(of(name, role, field)))
    ])),
    targets: Object.entries(roles).flatMap(([role, who]) => [
      { name: `${who}: event loop delay p99 while it copies`, value: of('large', role, 'p99'), limit: 50,
        unit: 'ms' },
      { name: `${who}: most resident, ${names.large} over ${names.small}`,
        value: of('large', role, 'most') - of('small', role, 'most'), limit: FLAT_MIB, unit: 'MiB' }
    ]),
    notes: [
      `medians of ${results.large.length} rounds, in turn, after one copy that does not count; ` +
        `VmRSS every ${SAMPLE_MS} ms`,
      'measured inside the nodes by a guest plugin (monitorEventLoopDelay, 1 ms, less its own 1 ms)',
      `/v1/diagnostics/node of the receiving node said p99 ${figure(diagnostics.p99, 'ms')} ` +
        'for its whole life'
    ],
    data: { ...results, diagnostics }
  }
}
