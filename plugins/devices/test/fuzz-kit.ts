import { DeviceScheme } from '../scheme.js'
import type { Clock, Proof } from '../../../kernel/index.js'
import type { DeviceFile } from '../signing/device.js'

/** The credential check of a node that knows a single device. */
export function schemeIn (device: DeviceFile, clock: Clock): (credential: string) => Proof | undefined {
  const scheme = new DeviceScheme({
    clock, nodeId: Object.values(device.seen)[0]!.nodeId,
    identity: { publicKey: new Uint8Array(32), sign: () => new Uint8Array(64) },
    standing: { of: (id) => id === device.deviceId ? device.grant : 'unknown' },
    bearers: { deviceOf: () => undefined }, used: () => {},
    error: (reason) => { throw new Error(reason) }
  })
  return (credential) => scheme.check({
    remoteAddress: '192.0.2.1', authorization: `SVC1 ${credential}`, indirect: false, inClear: false,
    method: 'GET', target: '/who', device: null
  }, credential)
}
