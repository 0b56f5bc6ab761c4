// Three nodes that stage one model concurrently, compared with one node, from a store with a narrow uplink.
import { figure } from '../lib/report.mjs'
import { interleave, median, pluck } from '../lib/stats.mjs'
import { alike, makeModel, settleDisk } from './model.mjs'
import { countServed, known, MIB, purge, stage, tooLittleRoom, withFolder, withSite } from './site.mjs'

// Upload limit in MiB/s, slow enough that the CPU of one small machine with four nodes is not the bottleneck.
const UPLOAD_MIB = 16

/** Stages the model once; returns the duration and the bytes that the store's node sent. */
async function once (first, model, on) {
  await settleDisk()
  const sent = countServed(first.pid)
  const seconds = await stage(first, model.modelId, on)
  const bytes = sent()
  await purge(first, model.modelId)
  return { seconds, bytes }
}

export default {
  title: 'Three cold nodes at once',
  async run ({ short }) {
    const bytes = (short ? 256 : 512) * MIB
    const skipped = tooLittleRoom(4 * bytes)
    if (skipped !== undefined) return skipped
    return await withFolder(async (folder) => {
      const model = makeModel(folder, 'bench/cold', alike(4, bytes / 4))
      return await withSite({ folder, count: 4, uploadMib: UPLOAD_MIB }, async ({ first, others }) => {
        await known([first, ...others], model.modelId)
        const results = await interleave(short ? 1 : 2, {
          one: () => once(first, model, others.slice(0, 1)),
          three: () => once(first, model, others)
        })
        return report(results, bytes)
      })
    })
  }
}

function report (results, bytes) {
  const seconds = (name) => median(pluck(results[name], 'seconds'))
  const copies = (name) => median(pluck(results[name], 'bytes')) / bytes
  const row = (name, text) => [
    text, figure(seconds(name)), figure(Math.max(...pluck(results[name], 'seconds'))), figure(copies(name))
  ]
  return {
    columns: ['', 'seconds', 'slowest', 'sent by the store, times the model'],
    rows: [row('one', 'one node'), row('three', 'three nodes at once')],
    targets: [
      { name: 'three at once, times one alone', value: seconds('three') / seconds('one'), limit: 1.3 }
    ],
    notes: [
      `${bytes / MIB} MiB, the store's uplink limited to ${UPLOAD_MIB} MiB/s ` +
        '(model_store.upload_mib_per_second), at which one copy takes at least ' +
        `${figure(bytes / MIB / UPLOAD_MIB, 's')}; median of ${results.one.length} rounds, in turn`,
      "sent: bytes that the store's node both read and wrote (/proc/<pid>/io)"
    ],
    data: results
  }
}
