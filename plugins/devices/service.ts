import { defineService } from '../../kernel/index.js'
import type { DeviceFile } from './signing/device.js'

export interface Devices {
  /** The device with a raw X25519 key; undefined for one without a valid grant here. */
  deviceWith (agreementKey: Uint8Array): string | undefined
  /** Whether the grant of a device is valid on this node now. */
  stands (deviceId: string): boolean
}
export const DevicesService = defineService<Devices>('devices')

/** Context of a plugin that stores cluster data on a paired device. */
export interface DeviceNewsContext {
  readonly home: string
  readonly device: DeviceFile
  /** The node's answer to a GET of the device. Throws CliError. */
  ask<T> (path: string): Promise<T>
}

/** Default export of a module that a manifest declares in `deviceNews`. */
export interface DeviceNews {
  /** Stores its data; returns lines for a user who has just paired the device. */
  run (ctx: DeviceNewsContext): Promise<readonly string[]>
}
