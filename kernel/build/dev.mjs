// Runs a node and restarts it when a source changes: npm run dev -- [options of svc up]
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { context } from 'esbuild'
import { options } from './bundle.mjs'
import { dist, root } from './paths.mjs'
import { publish } from './publish.mjs'

let node
let again = false
let builds = 0

function start () {
  again = false
  const words = ['dist/kernel/cli/main.js', 'up', ...process.argv.slice(2)]
  node = spawn(process.execPath, words, { stdio: 'inherit', cwd: root })
  node.once('exit', () => {
    node = undefined
    if (again) start()
  })
}

/** The dashboard page of the last complete build. */
function page () {
  const folder = join(dist, 'current/plugins/dashboard/built')
  return readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))])
}

const restart = {
  name: 'restart',
  setup ({ onEnd }) {
    onEnd(async (result) => {
      if (result.errors.length > 0) return
      await publish(`dev-${process.pid}-${++builds}`, result, page())
      if (node === undefined) return start()
      again = true
      node.kill('SIGTERM')
    })
  }
}

process.on('SIGINT', () => {
  // The terminal signals the node as well, and this process exits once the node has drained.
  if (node === undefined) process.exit(130)
  again = false
  node.once('exit', () => process.exit(130))
})
const bundle = await context({ ...options, plugins: [...options.plugins, restart] })
await bundle.watch()
