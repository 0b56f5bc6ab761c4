// Number of bytes fetched again after SIGKILL to the receiving node.
import { figure } from '../lib/report.mjs'
import { alike, makeModel } from './model.mjs'
import {
  countServed, known, MIB, purge, stage, together, tooLittleRoom, until, withFolder, withSite
} from './site.mjs'

const UPLOAD_MIB = 32
const CHUNK_MIB = 16
const SHARES = [0.1, 0.5, 0.99]

/**
 * Kills the receiving node after `share` of the bytes, then lets it fetch the rest; returns all bytes sent.
 */
async function cutAt (first, other, { modelId, bytes }, share) {
  const sent = countServed(first.pid)
  await first.ask(`/store/models/${modelId}/stage`, { nodeIds: [other.name] })
  await until('the moment to cut', () => sent() >= share * bytes, { everyMs: 2 })
  await other.kill()
  await other.start()
  await together([first, other])
  await stage(first, modelId, [other])
  return sent()
}

export default {
  title: 'Bytes fetched again after kill -9',
  async run ({ short }) {
    const bytes = (short ? 128 : 512) * MIB
    const skipped = tooLittleRoom(2 * bytes)
    if (skipped !== undefined) return skipped
    return await withFolder(async (folder) => {
      const model = makeModel(folder, 'bench/cut', alike(4, bytes / 4))
      return await withSite({ folder, uploadMib: UPLOAD_MIB }, async ({ first, others: [other] }) => {
        await known([first, other], model.modelId)
        // An uninterrupted copy for comparison, since both copies include the overhead of HTTP and TLS.
        const sent = countServed(first.pid)
        await stage(first, model.modelId, [other])
        const whole = sent()
        const again = []
        for (const share of SHARES) {
          for (let n = 0; n < (short ? 1 : 2); n++) {
            await purge(first, model.modelId)
            again.push({ share, bytes: await cutAt(first, other, model, share) - whole })
          }
        }
        return report(again, { bytes, whole })
      })
    })
  }
}

function report (again, { bytes, whole }) {
  const most = (share) =>
    Math.max(...again.filter((one) => one.share === share).map((one) => one.bytes)) / MIB
  return {
    columns: ['killed at', 'fetched again, MiB, most'],
    rows: SHARES.map((share) => [`${share * 100} %`, figure(most(share))]),
    targets: SHARES.map((share) => ({
      name: `fetched again after a cut at ${share * 100} %`, value: most(share), limit: CHUNK_MIB, unit: 'MiB'
    })),
    notes: [
      `${bytes / MIB} MiB, the store's uplink limited to ${UPLOAD_MIB} MiB/s; each share ` +
        `${again.length / SHARES.length} times; bytes that the store's node both read and wrote ` +
        `(/proc/<pid>/io), less those of a copy without a cut (${figure(whole / MIB, 'MiB')})`,
      'what the killed node had not read of its sockets counts as fetched again'
    ],
    data: { again, whole }
  }
}
