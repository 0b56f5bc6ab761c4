#!/usr/bin/env node
import { refuseInspector } from '../boot/inspector.js'
import type { Plugin } from '../api/plugin.js'

// Called before any other module is imported, so that SIGUSR1 never opens the inspector.
refuseInspector(process.env)
const [{ exitCodes }, { runCli }] = await Promise.all([import('./errors.js'), import('./program.js')])
// Repeated, since an inspector requested before the first call may open only after that call.
refuseInspector(process.env)

/** Imports the bundled plugins. The kernel imports them nowhere else. */
async function plugins (): Promise<readonly Plugin[]> {
  return (await import('../../plugins/index.js')).bundled
}

const interrupt = new AbortController()
process.once('SIGINT', () => { interrupt.abort() })
// EPIPE means that the reader of stdout has exited (`svc state | head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failed)
})

const status = await runCli(process.argv.slice(2), {
  io: {
    stdout: process.stdout, stderr: process.stderr, stdin: process.stdin, env: process.env, cwd: process.cwd()
  },
  plugins,
  signal: interrupt.signal
})
process.stdout.write('', () => { process.exit(status) })
