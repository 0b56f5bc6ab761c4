/** Alternates copies from the store's node to another node with cp and sha256sum of the same files. */
import { join } from 'node:path'
import { cpuMs } from '../lib/proc.mjs'
import { figure } from '../lib/report.mjs'
import { interleave, median, pluck } from '../lib/stats.mjs'
import { plainCopy, settleDisk } from './model.mjs'
import { known, MIB, purge, stage, withSite } from './site.mjs'

/** Measures `rounds` copies of each kind after a warm-up copy; `{ svc, plain }` have a record per round. */
export async function compare ({ folder, model, rounds }) {
  return await withSite({ folder }, async ({ first, others: [other] }) => {
    await known([first, other], model.modelId)
    const steps = {
      async svc () {
        await settleDisk()
        const before = [cpuMs(first.pid), cpuMs(other.pid)]
        const seconds = await stage(first, model.modelId, [other])
        const [giver, taker] = [first, other].map(({ pid }, i) => (cpuMs(pid) - before[i]) / 1000)
        await purge(first, model.modelId)
        return { seconds, giver, taker }
      },
      async plain () {
        await settleDisk()
        return await plainCopy(model.directory, join(folder, 'plain'))
      }
    }
    await interleave(1, steps)
    return await interleave(rounds, steps)
  })
}

export const columns = ['', 'seconds', 'MiB/s', 'slowest', 'CPU seconds']

/** Table rows of the result of `compare`. */
export function rowsOf ({ svc, plain }, bytes) {
  const row = (name, seconds, cpu) => [
    name, figure(median(seconds)), figure(bytes / MIB / median(seconds)), figure(Math.max(...seconds)), cpu
  ]
  const cpu = (records, field) => figure(median(pluck(records, field)))
  return [
    row('svc: node to node, hashed, on disk', pluck(svc, 'seconds'),
      `${cpu(svc, 'giver')} store, ${cpu(svc, 'taker')} other node`),
    row('cp and sha256sum', plain.map(({ cp, sum }) => cp + sum), cpu(plain, 'cpu')),
    row('cp, sha256sum and sync of the files', plain.map(({ cp, sum, sync }) => cp + sum + sync), '–')
  ]
}

/** Copy speed relative to cp and sha256sum; with `sync`, to cp, sha256sum and a sync to disk. */
export function ratio ({ svc, plain }, { sync = false } = {}) {
  const seconds = plain.map((one) => one.cp + one.sum + (sync ? one.sync : 0))
  return median(seconds) / median(pluck(svc, 'seconds'))
}

export const notes = [
  'store and other node are two processes on this machine, over loopback with TLS; svc ends with every ' +
    'file hashed and fsynced, cp leaves its bytes in memory; nothing is dropped from caches, `sync` before ' +
    'each',
  'one round of both before those that count'
]
