import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { walkModel } from '../files/walk.js'
import { scratch } from './files-kit.js'

t.test('16,384 files, and one more', async (t) => {
  const root = scratch(t)
  for (let i = 0; i < 16_384; i++) writeFileSync(join(root, `f${i}`), '')
  t.equal((await walkModel(root)).length, 16_384)
  writeFileSync(join(root, 'more'), '')
  await t.rejects(walkModel(root), { message: /more than 16384/ })
})
