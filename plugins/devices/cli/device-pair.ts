import { hostname } from 'node:os'
import { plain, realPace, type Verb } from '../../../kernel/cli/index.js'
import { PairingError, type AskNode } from '../signing/pair.js'
import { pairDevice, saveDevice } from '../signing/device.js'
import { syncDevice } from '../device-sync.js'
import { digitComparison } from './compare.js'
import { describe } from './describe.js'

export default {
  async run (ctx, [address], options) {
    const { err, home, out, signal } = ctx
    const name = (options['name'] as string | undefined) ?? hostname()
    const client = ctx.clientFor({ url: address!, token: undefined })
    const ask: AskNode = async <T>(path: string, body?: object) =>
      await client.json<T>(path, body === undefined ? {} : { method: 'POST', body })
    const { same } = digitComparison(ctx, options)
    const compare = async (digits: string, nodeName: string): Promise<boolean> => {
      err.line(`Compare with what node ${plain(nodeName)} shows: ${err.paint('bold', digits)}`)
      err.line('Both sides must confirm. If the digits differ, someone may be in between: answer no.')
      const agreed = await same(digits, 'Does the node show the same digits?')
      if (agreed) err.line('waiting for the confirmation of the operator there')
      return agreed
    }
    const pause = async (ms: number): Promise<void> => {
      await realPace.pause(ms, signal)
      if (signal.aborted) throw ctx.fail(130, 'interrupted')
    }
    const pairing = pairDevice({ ask, url: client.url, name, compare, pause })
    const device = await pairing.catch((error: unknown) => {
      throw error instanceof PairingError ? ctx.fail(1, error.message) : error
    })
    saveDevice(home, device)
    const news = await syncDevice(ctx, client.url)
    const { grant } = device
    if (out.json) {
      const { deviceId, authorities, viaRelay, expires } = grant
      out.value({ deviceId, name: grant.name, authorities, viaRelay, expires, url: client.url })
      return
    }
    out.line(describe(grant))
    err.line(`svc --url ${client.url} status (and every other verb) now signs its requests with this key`)
    for (const line of news) err.line(line)
  }
} satisfies Verb
