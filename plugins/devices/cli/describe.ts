import { plain } from '../../../kernel/cli/index.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { routes } from '../routes.js'
import type { Grant } from '../signing/protocol.js'

export type DeviceView = FromSchema<(typeof routes)['show']['reply']>

type Described = Pick<Grant, 'authorities' | 'deviceId' | 'expires' | 'name'>

export function describe ({ authorities, deviceId, expires, name }: Described): string {
  const may = authorities.length === 0 ? 'has no authority' : `may ${authorities.join(', ')}`
  return `${deviceId} "${plain(name)}" ${may} until ${expires.slice(0, 10)}`
}
