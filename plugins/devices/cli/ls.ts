import { plain, type Verb } from '../../../kernel/cli/index.js'
import type { DeviceView } from './describe.js'

export default {
  async run ({ client, out }) {
    const answer = await client.json<{ devices: DeviceView[] }>('/v1/devices')
    if (out.json) return out.value(answer)
    const headers = ['ID', 'NAME', 'AUTHORITIES', 'VIA RELAY', 'EXPIRES', 'LAST USED', 'STATE']
    out.table(headers, answer.devices.map((d) => [
      d.deviceId, plain(d.name), d.authorities.join(','), d.viaRelay.join(','), d.expires.slice(0, 16),
      d.lastUsedDay ?? 'never', d.state
    ]))
  }
} satisfies Verb
