import { randomBytes } from 'node:crypto'
import { listening, openLine, stopped } from './line.js'
import { openForwarder } from '../device/forwarder.js'
import type { Verb } from '../../../kernel/cli/index.js'

const PORT = 52430
/** Authorities that local programs have without a token, as they do at a node's own port. */
const USUAL = ['read', 'invoke']

export default {
  async run (ctx, _args, options) {
    const port = Number(options['port'] ?? PORT)
    if (!Number.isInteger(port) || port < 0 || port > 65_535) {
      throw ctx.fail(2, `--port ${String(options['port'])}: expected a port, or 0 for any`)
    }
    const { device, line } = await openLine(ctx, options)
    const { viaRelay } = device.grant
    // Require a token for any other authority, because every program on this machine can use the port.
    const more = viaRelay.filter((authority) => !USUAL.includes(authority))
    const token = options['token'] === true || more.length > 0 ? randomBytes(32).toString('base64url') : null
    const forwarder = await listening(ctx, { host: '127.0.0.1', port },
      () => openForwarder({ line, port, token }))
    const url = `http://127.0.0.1:${forwarder.port}`
    if (ctx.out.json) ctx.out.value({ url, token, device: device.deviceId, pid: process.pid })
    else {
      ctx.out.line(`the cluster is at ${url}, as device ${device.name}: ${viaRelay.join(', ')}`)
      if (token !== null) ctx.out.line(`each request needs the token ${token}`)
      ctx.err.line('press Ctrl-C to stop')
    }
    await stopped(ctx)
    line.close()
    await forwarder.close()
  }
} satisfies Verb
