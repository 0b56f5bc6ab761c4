#!/usr/bin/env node
import { refuseInspector } from '../boot/inspector.js'
import type { Plugin } from '../api/plugin.js'

// Before any other module.
refuseInspector(process.env)
const [{ exitCodes }, { runCli }] = await Promise.all([import('./errors.js'), import('./program.js')])
// Node handles a signal that arrived before the first line a moment later.
refuseInspector(process.env)

/** The bundled plugins: the only place where the kernel imports them. */
async function plugins (): Promise<readonly Plugin[]> {
  return (await import('../../plugins/index.js')).bundled
}

const interrupt = new AbortController()
process.once('SIGINT', () => { interrupt.abort() })
// The reader of stdout is gone (`svc state | head`).
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
