import { plain } from '../../../kernel/cli/index.js'
import type { DeviceView } from '../handlers.js'

export function describe ({ authorities, deviceId, expires, name }: DeviceView): string {
  const may = authorities.length === 0 ? 'may do nothing' : `may ${authorities.join(', ')}`
  return `${deviceId} "${plain(name)}" ${may} until ${expires.slice(0, 10)}`
}
