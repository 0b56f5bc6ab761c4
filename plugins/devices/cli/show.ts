import { plain, type Verb } from '../../../kernel/cli/index.js'
import type { DeviceView } from './describe.js'

export default {
  async run ({ client, out }, [id]) {
    const d = await client.json<DeviceView>(`/v1/devices/${encodeURIComponent(id!)}`)
    if (out.json) return out.value(d)
    const rows: [string, string][] = [
      ['id', d.deviceId], ['name', plain(d.name)], ['state', d.state],
      ['authorities', d.authorities.join(', ')],
      ['through a relay', d.viaRelay.join(', ')], ['paired', d.created ?? 'long ago'], ['by', plain(d.by)],
      ['expires', d.expires], ['last used', d.lastUsedDay ?? 'never'],
      ['trusted offline for', d.maxOfflineSeconds === null ? '-' : `${d.maxOfflineSeconds / 3600} h`]
    ]
    out.table(['WHAT', 'VALUE'], rows)
  }
} satisfies Verb
