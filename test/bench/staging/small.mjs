// Ten thousand small files from the store to another node, compared with cp and sha256sum.
import { columns, compare, notes, ratio, rowsOf } from './compare.mjs'
import { alike, makeModel } from './model.mjs'
import { tooLittleRoom, withFolder } from './site.mjs'

const FILE_BYTES = 1024

export default {
  title: 'Many small files',
  async run ({ short }) {
    const count = short ? 2000 : 10_000
    // Even a small file occupies a whole disk block of 4 KiB.
    const skipped = tooLittleRoom(3 * count * 4096)
    if (skipped !== undefined) return skipped
    return await withFolder(async (folder) => {
      const model = makeModel(folder, 'bench/small', alike(count, FILE_BYTES))
      const results = await compare({ folder, model, rounds: short ? 2 : 3 })
      return {
        columns,
        rows: rowsOf(results, model.bytes),
        targets: [],
        notes: [
          `${count} files of ${FILE_BYTES} bytes; median of ${results.svc.length} rounds, in turn`,
          ...notes,
          `share of the speed of cp and sha256sum: ${ratio(results).toFixed(3)}, ` +
            `with sync of the plain copy: ${ratio(results, { sync: true }).toFixed(3)}`
        ],
        data: results
      }
    })
  }
}
