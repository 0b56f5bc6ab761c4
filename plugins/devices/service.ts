import { defineService } from '../../kernel/index.js'

/** The paired devices of the cluster, for plugins that meet them elsewhere than over HTTP. */
export interface Devices {
  /** The device that has an X25519 key, raw; undefined when none has whose grant counts here, now. */
  deviceWith (agreementKey: Uint8Array): string | undefined
  /** Whether the grant of a device counts here, now. */
  stands (deviceId: string): boolean
}
export const DevicesService = defineService<Devices>('devices')
