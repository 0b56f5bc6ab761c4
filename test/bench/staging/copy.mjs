// One copy of a large model from the store to another node, compared with cp and sha256sum of its files.
import { columns, compare, notes, ratio, rowsOf } from './compare.mjs'
import { alike, makeModel } from './model.mjs'
import { GIB, MIB, tooLittleRoom, withFolder } from './site.mjs'

export default {
  title: 'One copy of a model',
  async run ({ short }) {
    const bytes = short ? 512 * MIB : 2 * GIB
    const skipped = tooLittleRoom(3 * bytes)
    if (skipped !== undefined) return skipped
    return await withFolder(async (folder) => {
      const model = makeModel(folder, 'bench/large', alike(4, bytes / 4))
      const results = await compare({ folder, model, rounds: short ? 2 : 3 })
      return {
        columns,
        rows: rowsOf(results, bytes),
        targets: [{
          name: 'share of the speed of cp and sha256sum', value: ratio(results), limit: 0.8, atLeast: true
        }],
        notes: [
          `${bytes / MIB} MiB of random bytes in 4 files; median of ${results.svc.length} rounds, in turn`,
          ...notes,
          `with sync of the plain copy: ${ratio(results, { sync: true }).toFixed(2)}`
        ],
        data: results
      }
    })
  }
}
