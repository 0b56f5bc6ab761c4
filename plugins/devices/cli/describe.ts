import { plain } from '../../../kernel/cli/index.js'

export interface DeviceView {
  readonly deviceId: string
  readonly name: string
  readonly authorities: readonly string[]
  readonly viaRelay: readonly string[]
  readonly created: string | null
  readonly expires: string
  readonly maxOfflineSeconds: number | null
  readonly by: string
  readonly lastUsedDay: string | null
  readonly state: 'active' | 'expired' | 'revoked' | 'node_removed' | 'unheard'
}

export function describe ({ authorities, deviceId, expires, name }: DeviceView): string {
  const may = authorities.length === 0 ? 'has no authority' : `may ${authorities.join(', ')}`
  return `${deviceId} "${plain(name)}" ${may} until ${expires.slice(0, 10)}`
}
