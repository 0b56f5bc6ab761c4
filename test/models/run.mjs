// npm run test:onnx [-- --node 22 | 24] [FILE ...]: compares svc with transformers.js on the models in this
// folder; `--node` runs another version of Node, from an npm package.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const here = fileURLToPath(new URL('.', import.meta.url))
const options = { node: { type: 'string' } }
const { values: { node }, positionals } = parseArgs({ allowPositionals: true, options })
const program = node === undefined ? process.execPath : join(here, `node_modules/node${node}/bin/node`)
const version = spawnSync(program, ['--version'], { encoding: 'utf8' })
if (version.status === 0) {
  console.log(`Node ${version.stdout.trim()}`)
  const files = positionals.length > 0 ? positionals : [here]
  const run = [join(here, '../run.mjs'), '--jobs', '1', '--timeout', '1800', ...files]
  process.exitCode = spawnSync(program, run, { stdio: 'inherit' }).status ?? 1
} else {
  console.error(`there is no ${program}: --node takes 22 or 24, which come for Linux on x64`)
  process.exitCode = 1
}
