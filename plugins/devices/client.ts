import { deviceFileOf, newDeviceKeys, pairWith } from '../../kernel/index.js'
import type { DeviceFile, PairOptions } from '../../kernel/index.js'

/** The device's side of pairing for a machine with a home, with fresh keys. Throws as `pairWith` does. */
export async function pairDevice (options: Omit<PairOptions, 'keys'>): Promise<DeviceFile> {
  const keys = newDeviceKeys()
  return deviceFileOf(keys, await pairWith({ ...options, keys }))
}
