// Copies what is not TypeScript but belongs to the built package (models, cards, data) beside the compiled code.
import { cpSync, readdirSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const KEPT = /\.(onnx|onnx\.json|yaml|bin|dat|gz|NOTICE\.txt|LICENCE\.txt)$|LICENCE\.txt$/
const SKIPPED = new Set(['test', 'train', 'node_modules', 'dist'])

function * files (folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) { if (!SKIPPED.has(entry.name)) yield * files(path) } else if (KEPT.test(entry.name)) yield path
  }
}

for (const path of files(join(root, 'plugins'))) {
  const to = join(root, 'dist', relative(root, path))
  cpSync(path, to)
}
for (const stale of ['dist/test']) rmSync(join(root, stale), { recursive: true, force: true })
