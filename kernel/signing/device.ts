import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { HomeError, readVersioned, writeVersioned } from '../boot/home.js'
import { fingerprintOfRaw, isSignedBy, keyPairOf, newKeyPair, rawPrivate, sha256, signed } from './keys.js'
import {
  CORRECTION, correctionBytes, deviceIdOf, purposeBytes, requestText, SIGNED, writeCredential
} from './protocol.js'
import type { KeyPair } from './keys.js'
import type { Grant } from './protocol.js'

/** The keys of a device. */
export interface DeviceKeys {
  readonly deviceId: string
  /** Ed25519: signs. */
  readonly key: KeyPair
  /** X25519: for the handshake over a relay. */
  readonly agreement: KeyPair
}

/** A node of the cluster that a device belongs to; `fingerprint`: what its key is known by. */
export interface KnownNode {
  readonly installId: string
  readonly name: string
  readonly url: string | null
  readonly fingerprint: string
}

/** What a device knows of an address: the node's present id, and how far the node's clock is ahead, ms. */
export interface Seen { readonly nodeId: string, readonly aheadMs: number }

/** A paired device as its own home keeps it: with its secrets, in a file of mode 0600. */
export interface DeviceFile {
  readonly deviceId: string
  readonly name: string
  /** base64url: the private halves. */
  readonly keySeed: string
  readonly agreementSeed: string
  readonly grant: Grant
  readonly nodes: readonly KnownNode[]
  /** By origin of the URLs at which it was paired or learnt of. */
  readonly seen: Readonly<Record<string, Seen>>
}

export function newDeviceKeys (): DeviceKeys {
  return keysWith(newKeyPair('Ed25519'), newKeyPair('X25519'))
}

function keysWith (key: KeyPair, agreement: KeyPair): DeviceKeys {
  return { deviceId: deviceIdOf(sha256(key.publicKey)), key, agreement }
}

/** The keys out of a device's file. */
export function deviceKeysOf ({ keySeed, agreementSeed }: DeviceFile): DeviceKeys {
  const raw = (text: string): Buffer => Buffer.from(text, 'base64url')
  return keysWith(keyPairOf('Ed25519', raw(keySeed)), keyPairOf('X25519', raw(agreementSeed)))
}

export function deviceFileOf (
  keys: DeviceKeys, rest: Pick<DeviceFile, 'grant' | 'nodes' | 'seen'>
): DeviceFile {
  const text = ({ privateKey }: KeyPair): string => rawPrivate(privateKey).toString('base64url')
  return {
    deviceId: keys.deviceId, name: rest.grant.name,
    keySeed: text(keys.key), agreementSeed: text(keys.agreement), ...rest
  }
}

const FORMAT = 1
const folderOf = (home: string): string => join(home, 'devices')

/** Writes it to the home, readable by its owner only. */
export function saveDevice (home: string, device: DeviceFile): void {
  mkdirSync(folderOf(home), { recursive: true, mode: 0o700 })
  writeVersioned(join(folderOf(home), `${device.deviceId}.json`), FORMAT, device)
}

/** The devices that this home is, whichever cluster they belong to. Throws HomeError for a broken file. */
export function savedDevices (home: string): DeviceFile[] {
  let names: string[]
  try { names = readdirSync(folderOf(home)) } catch { return [] }
  return names.filter((name) => /^[a-z2-7]{52}\.json$/.test(name)).flatMap((name) => {
    const path = join(folderOf(home), name)
    const device = readVersioned<DeviceFile>(path, FORMAT)
    if (device === undefined) return []
    if (typeof device.keySeed === 'string' && typeof device.seen === 'object') return [device]
    throw new HomeError(`${path} holds no device; remove it and pair again: svc device pair URL`)
  })
}

const originOf = (url: string): string => new URL(url).origin

/** The newest device of a home for the node at an address; undefined when it knows none there. */
export function deviceFor (home: string, url: string): DeviceFile | undefined {
  if (!URL.canParse(url)) return undefined
  const origin = originOf(url)
  const knows = ({ seen, nodes }: DeviceFile): boolean =>
    seen[origin] !== undefined || nodes.some((node) => node.url !== null && originOf(node.url) === origin)
  return savedDevices(home).filter(knows)
    .sort((a, b) => a.grant.created < b.grant.created ? 1 : -1)[0]
}

const NONCE_BYTES = 12

/** What a node says in the details of a refused signature. */
type Refusal = Partial<Record<'nodeId' | 'timeMs' | 'nonce' | 'nodeKey' | 'signature', unknown>>

export interface SigningOptions {
  keys: Pick<DeviceKeys, 'deviceId' | 'key'>
  /** Fingerprints of the cluster's nodes: whose word about ids and clocks is taken. */
  fingerprints: ReadonlySet<string>
  /** Undefined before the node was met: its first answer tells. */
  seen: Seen | undefined
  /** Wall time of this device, ms. */
  now: () => number
  /** Told after each correction. */
  learnt?: (seen: Seen) => void
}

/** Signs requests to one node, and learns from its refusals which id it has now and what its clock says. */
export class RequestSigner {
  readonly #options: SigningOptions
  #seen: Seen
  /** Of the newest requests: only an answer to one of them is believed. */
  readonly #sent = new Set<string>()

  constructor (options: SigningOptions) {
    this.#options = options
    this.#seen = options.seen ?? { nodeId: '', aheadMs: 0 }
  }

  /** The value of Authorization; `target`: path and query as they will be sent. */
  authorization (method: string, target: string, body: Uint8Array | undefined): string {
    const { keys: { deviceId, key }, now } = this.#options
    const request = {
      method, target, nodeId: this.#seen.nodeId,
      body: sha256(body ?? new Uint8Array(0)).toString('base64url'),
      ts: Math.max(0, Math.round(now() + this.#seen.aheadMs)),
      nonce: randomBytes(NONCE_BYTES).toString('base64url')
    }
    this.#sent.add(request.nonce)
    if (this.#sent.size > MOST_SENT) this.#sent.delete(this.#sent.values().next().value!)
    const signature = signed(key.privateKey, Buffer.from(requestText(request))).toString('base64url')
    const { body: bodyHash, nonce, ts } = request
    return `${SIGNED} ${writeCredential({ device: deviceId, ts, nonce, body: bodyHash, signature })}`
  }

  /**
   * Takes what a node says with a refused signature: whether the request is worth one more try. Only what a
   * node of the cluster has signed, about a request of this signer, is believed.
   */
  correct (details: unknown): boolean {
    const { nodeId, timeMs, nonce, nodeKey, signature } = (details ?? {}) as Refusal
    if (typeof nodeId !== 'string' || typeof timeMs !== 'number' || typeof nonce !== 'string') return false
    if (typeof nodeKey !== 'string' || typeof signature !== 'string') return false
    if (!this.#sent.delete(nonce)) return false
    const key = Buffer.from(nodeKey, 'base64url')
    if (key.byteLength !== 32 || !this.#options.fingerprints.has(fingerprintOfRaw(key))) return false
    const said = purposeBytes(CORRECTION, correctionBytes({ nodeId, timeMs, nonce }))
    if (!isSignedBy(key, said, Buffer.from(signature, 'base64url'))) return false
    this.#seen = { nodeId, aheadMs: timeMs - this.#options.now() }
    this.#options.learnt?.(this.#seen)
    return true
  }
}

const MOST_SENT = 1024

/** A signer for the node at an address that keeps what it learns in the device's file. */
export function signerAt (home: string, url: string, now: () => number): RequestSigner | undefined {
  const device = deviceFor(home, url)
  if (device === undefined) return undefined
  return new RequestSigner({
    keys: deviceKeysOf(device), now,
    fingerprints: new Set(device.nodes.map(({ fingerprint }) => fingerprint)),
    seen: device.seen[originOf(url)],
    learnt: (seen) => {
      // Another run may have written meanwhile; a lost word costs one more try the next time.
      const newest = savedDevices(home).find(({ deviceId }) => deviceId === device.deviceId) ?? device
      saveDevice(home, { ...newest, seen: { ...newest.seen, [originOf(url)]: seen } })
    }
  })
}
