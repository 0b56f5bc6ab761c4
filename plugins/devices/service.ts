import { defineService } from '../../kernel/index.js'
import type { DeviceFile } from './signing/device.js'

export interface Devices {
  /** The id of the device with this raw X25519 key; undefined if it has no valid grant on this node. */
  deviceWith (agreementKey: Uint8Array): string | undefined
  /** Whether the grant of a device is valid on this node now. */
  stands (deviceId: string): boolean
}
export const DevicesService = defineService<Devices>('devices')

/** Context of a plugin that stores cluster data on a paired device. */
export interface DeviceNewsContext {
  readonly home: string
  readonly device: DeviceFile
  /** Sends a GET to the node as the device, and returns the parsed answer. Throws CliError. */
  ask<T> (path: string): Promise<T>
}

/** Default export of a module that a manifest declares in `deviceNews`. */
export interface DeviceNews {
  /** Stores the node's data for this plugin on the device; returns lines that are shown after pairing. */
  run (ctx: DeviceNewsContext): Promise<readonly string[]>
}
