// Finishes a build: copies what is not TypeScript (models, cards, data) beside the compiled code, and makes
// `npx svc` in the checkout run the compiled command at once.
import { chmodSync, cpSync, existsSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const KEPT = /\.(onnx|onnx\.json|yaml|bin|dat|gz|NOTICE\.txt)$|LICENCE\.txt$|\/model\/[^/]+\.json$/
const SKIPPED = new Set(['test', 'node_modules', 'dist'])

function * files (folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (!entry.isDirectory()) {
      if (KEPT.test(path)) yield path
    } else if (!SKIPPED.has(entry.name)) yield * files(path)
  }
}

for (const path of files(join(root, 'plugins'))) {
  const to = join(root, 'dist', relative(root, path))
  cpSync(path, to)
}

cpSync(join(root, 'kernel/cli/data'), join(root, 'dist/kernel/cli/data'), { recursive: true })

const main = join(root, 'dist/kernel/cli/main.js')
chmodSync(main, 0o755)
// Without a local bin, npx would install the checkout into its cache and build it a second time.
const bin = join(root, 'node_modules/.bin')
if (existsSync(bin)) {
  rmSync(join(bin, 'svc'), { force: true })
  symlinkSync(relative(bin, main), join(bin, 'svc'))
}
