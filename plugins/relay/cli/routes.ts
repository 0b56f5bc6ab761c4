import { plain, type Verb } from '../../../kernel/cli/index.js'
import { fetchRelays } from '../device/known.js'
import { deviceOf } from './line.js'

export default {
  async run (ctx, _args, options) {
    const device = deviceOf(ctx, options)
    const { meetings } =
      await fetchRelays(ctx.home, device, (path) => ctx.client.json(path), { proven: false })
    if (ctx.out.json) ctx.out.value({ routes: meetings })
    else if (meetings.length === 0) ctx.out.line('no node of the cluster has a relay: set relay.url on one')
    else ctx.out.table(['NODE', 'RELAY'], meetings.map(({ name, url }) => [plain(name), plain(url)]))
  }
} satisfies Verb
