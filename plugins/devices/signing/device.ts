import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import {
  HomeError, keyPairOf, newKeyPair, rawPrivate, readVersioned, sha256, signed, writeVersioned, type KeyPair
} from '../../../kernel/index.js'
import { pairWith, type Paired, type PairOptions } from './pair.js'
import { deviceIdOf } from './protocol.js'
import { RequestSigner, type DeviceIdentity } from './signer.js'

export interface DeviceKeys extends DeviceIdentity { readonly key: KeyPair, readonly agreement: KeyPair }

/** The record of a paired device in its own home, with its secrets, in a file of mode 0600. */
export interface DeviceFile extends Paired {
  readonly deviceId: string
  readonly name: string
  /** Private halves of the keys, base64url. */
  readonly keySeed: string
  readonly agreementSeed: string
  /** Time and node id of the last device sync, by origin. */
  readonly news?: Readonly<Record<string, { readonly nodeId: string, readonly at: string }>>
}

export function newDeviceKeys (): DeviceKeys {
  return keysWith(newKeyPair('Ed25519'), newKeyPair('X25519'))
}

function keysWith (key: KeyPair, agreement: KeyPair): DeviceKeys {
  const sign = async (message: Uint8Array): Promise<Uint8Array> => signed(key.privateKey, message)
  return { deviceId: deviceIdOf(sha256(key.publicKey)), key, agreement, sign }
}

export function deviceKeysOf ({ keySeed, agreementSeed }: DeviceFile): DeviceKeys {
  const raw = (text: string): Buffer => Buffer.from(text, 'base64url')
  return keysWith(keyPairOf('Ed25519', raw(keySeed)), keyPairOf('X25519', raw(agreementSeed)))
}

export function deviceFileOf (keys: DeviceKeys, rest: Paired): DeviceFile {
  const text = ({ privateKey }: KeyPair): string => rawPrivate(privateKey).toString('base64url')
  return {
    deviceId: keys.deviceId, name: rest.grant.name,
    keySeed: text(keys.key), agreementSeed: text(keys.agreement), ...rest
  }
}

/** Pairs this machine with a node as a device with new keys. Throws the same errors as `pairWith`. */
export async function pairDevice (options: Omit<PairOptions, 'keys'>): Promise<DeviceFile> {
  const keys = newDeviceKeys()
  return deviceFileOf(keys, await pairWith({ ...options, keys }))
}

const FORMAT = 1
const folderOf = (home: string): string => join(home, 'devices')

export function saveDevice (home: string, device: DeviceFile): void {
  mkdirSync(folderOf(home), { recursive: true, mode: 0o700 })
  writeVersioned(join(folderOf(home), `${device.deviceId}.json`), FORMAT, device)
}

/** The device identities of this home, in any cluster. Throws HomeError for a broken file. */
export function savedDevices (home: string): DeviceFile[] {
  let names: string[]
  try { names = readdirSync(folderOf(home)) } catch { return [] }
  return names.filter((name) => /^[a-z2-7]{52}\.json$/.test(name)).flatMap((name) => {
    const path = join(folderOf(home), name)
    const device = readVersioned<DeviceFile>(path, FORMAT)
    if (device === undefined) return []
    if (typeof device.keySeed === 'string' && typeof device.seen === 'object') return [device]
    throw new HomeError(`${path} contains no device; remove it and pair again: svc device pair URL`)
  })
}

const originOf = (url: string): string => new URL(url).origin

/** The newest device identity of a home for the node at an address; undefined without one. */
export function deviceFor (home: string, url: string): DeviceFile | undefined {
  if (!URL.canParse(url)) return undefined
  const origin = originOf(url)
  const knows = ({ seen, nodes }: DeviceFile): boolean =>
    seen[origin] !== undefined || nodes.some((node) => node.url !== null && originOf(node.url) === origin)
  return savedDevices(home).filter(knows).sort((a, b) => a.grant.created < b.grant.created ? 1 : -1)[0]
}

/** A signer for the node at an address that stores corrections in the device's file. */
export function signerAt (home: string, url: string, now: () => number): RequestSigner | undefined {
  const device = deviceFor(home, url)
  if (device === undefined) return undefined
  return new RequestSigner({
    keys: deviceKeysOf(device), now,
    fingerprints: new Set(device.nodes.map(({ fingerprint }) => fingerprint)),
    seen: device.seen[originOf(url)],
    learnt: (seen) => {
      // Read the file again, because another process may have changed it. A lost update costs one retry.
      const newest = savedDevices(home).find(({ deviceId }) => deviceId === device.deviceId) ?? device
      saveDevice(home, { ...newest, seen: { ...newest.seen, [originOf(url)]: seen } })
    }
  })
}
