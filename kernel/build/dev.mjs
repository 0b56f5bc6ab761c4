// A node that starts again when a source changes: npm run dev -- [options of svc up]
import { spawn } from 'node:child_process'
import { context } from 'esbuild'
import { options } from './bundle.mjs'
import './finish.mjs'

let node
let again = false

function start () {
  again = false
  const words = ['dist/kernel/cli/main.js', 'up', ...process.argv.slice(2)]
  node = spawn(process.execPath, words, { stdio: 'inherit' })
  node.once('exit', () => {
    node = undefined
    if (again) start()
  })
}

const restart = {
  name: 'restart',
  setup ({ onEnd }) {
    onEnd(({ errors }) => {
      if (errors.length > 0) return
      if (node === undefined) return start()
      again = true
      node.kill('SIGTERM')
    })
  }
}

process.on('SIGINT', () => {
  // The terminal tells the node as well; it drains first.
  if (node === undefined) process.exit(130)
  again = false
  node.once('exit', () => process.exit(130))
})
const bundle = await context({ ...options, plugins: [...options.plugins, restart] })
await bundle.watch()
