import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { openForwarder } from '../device/forwarder.js'
import { openLine } from './line.js'
import { noInspector } from '../../../kernel/index.js'
import type { Verb } from '../../../kernel/cli/index.js'

export default {
  async run (ctx, words, options) {
    const { line } = await openLine(ctx, options)
    const token = randomBytes(32).toString('base64url')
    const forwarder = await openForwarder({ line, port: 0, token })
    const url = `http://127.0.0.1:${forwarder.port}`
    try {
      await line.transport()
      // Run the same svc program as a child that uses the forwarder's port as the node's URL.
      const child = spawn(process.execPath, [...noInspector(), process.argv[1]!, ...words], {
        stdio: 'inherit', cwd: ctx.io.cwd,
        env: { ...ctx.io.env, SVC_HOME: ctx.home, SVC_URL: url, SVC_TOKEN: token }
      })
      const [status] = await once(child, 'exit') as [number | null]
      return status ?? 1
    } finally {
      line.close()
      await forwarder.close()
    }
  }
} satisfies Verb
