import { defineService } from '../../kernel/index.js'

export interface Devices {
  /** The device with a raw X25519 key; undefined for one without a valid grant here. */
  deviceWith (agreementKey: Uint8Array): string | undefined
  /** Whether the grant of a device counts here, now. */
  stands (deviceId: string): boolean
}
export const DevicesService = defineService<Devices>('devices')
