import { randomBytes } from 'node:crypto'
import { systemClock } from '../../../kernel/index.js'
import { relayLimits } from '../server/limits.js'
import { startRelay } from '../server/relay.js'
import { listening, stopped } from './line.js'
import { tlsOptions } from './tls.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'
import type { RelayLimits } from '../server/limits.js'

const USAGE = 2
const PORT = 52420
const MIB = 1024 * 1024

export default {
  async run (ctx, _args, options) {
    const host = String(options['host'] ?? '127.0.0.1')
    const tls = tlsOptions(ctx, options)
    const port = wholeNumber(ctx, options, 'port', PORT, 0, 65_535)
    const limits = limitsOf(ctx, options)
    const relay = await listening(ctx, { host, port }, () => startRelay({
      host, port, ...tls === undefined ? {} : { tls: tls.first },
      proxied: options['behindProxy'] === true, limits, clock: systemClock, random: randomBytes
    }))
    const name = host.includes(':') ? `[${host}]` : host
    const url = `${tls === undefined ? 'http' : 'https'}://${name}:${relay.port}`
    if (ctx.out.json) ctx.out.value({ url, pid: process.pid })
    else {
      ctx.out.line(`relay at ${url}`)
      ctx.err.line(`to connect a node:  svc config set relay.url ${url}  and restart it`)
    }
    const unwatch = tls?.watch((identity) => { relay.show(identity) })
    await stopped(ctx)
    unwatch?.()
    await relay.close()
  }
} satisfies Verb

function limitsOf (ctx: VerbContext, options: Record<string, unknown>): RelayLimits {
  const { connections, devicesPerRoute, bytesPerSecond } = relayLimits
  return {
    ...relayLimits,
    connections: wholeNumber(ctx, options, 'connections', connections, 2, 1_000_000),
    devicesPerRoute: wholeNumber(ctx, options, 'devices', devicesPerRoute, 1, 100_000),
    bytesPerSecond: MIB * wholeNumber(ctx, options, 'rate', bytesPerSecond / MIB, 1, 100_000)
  }
}

function wholeNumber (
  ctx: VerbContext, options: Record<string, unknown>, name: string, usual: number, least: number, most: number
): number {
  if (options[name] === undefined) return usual
  const number = Number(options[name])
  if (Number.isInteger(number) && number >= least && number <= most) return number
  const asked = String(options[name])
  throw ctx.fail(USAGE, `--${name} ${asked}: expected a whole number from ${least} to ${most}`)
}
