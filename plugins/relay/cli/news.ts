import { plain } from '../../../kernel/cli/index.js'
import { fetchRelays } from '../device/known.js'
import type { DeviceNews } from '../../devices/service.js'

/** Updates the relay addresses in a device's file whenever the device has reached a node. */
export const relaySync: DeviceNews = {
  async run ({ ask, device, home }) {
    const { meetings } = await fetchRelays(home, device, ask, { proven: false })
    if (meetings.length === 0) return []
    const nodes = meetings.map(({ name, url }) => `${plain(name)} at ${plain(url)}`).join(', ')
    return [`To reach it from other networks, run  svc device serve  (${nodes})`]
  }
}
