import {
  closedObject, isSignedBy, KEY_BYTES, purposeBytes, sha256, type FromSchema
} from '../../kernel/index.js'
import { deviceIdOf, GRANT, grantBytes, type Grant } from './signing/protocol.js'

/** The record of a revoked device, kept until its grant would have expired. Times are ISO-8601. */
export type Revocation = Readonly<FromSchema<typeof revocationSchema>>

/** A device's grant, or its revocation, which always wins. */
export interface Entry { readonly grant: Grant | null, readonly revoked: Revocation | null }

/** Maximum lifetime of a grant in ms. */
export const LONGEST_MS = 400 * 86_400_000
/** Milliseconds for which expired entries are kept, because clocks differ. */
const KEPT_MS = 2 * 86_400_000
/**
 * Maximum size in bytes of the cluster's device list as JSON, about 300 devices. It shares the control
 * document's 256 KiB with all plugins, and a full document would block placements.
 */
export const MOST_BYTES = 192 * 1024

const text = { type: 'string', minLength: 1, maxLength: 100 } as const
const time = { type: 'string', format: 'date-time', maxLength: 40 } as const
const DEVICE_ID = /^[a-z2-7]{52}$/
const deviceId = { type: 'string', pattern: DEVICE_ID.source } as const
const key = { type: 'string', pattern: '^[\\w-]{43}$' } as const
const authorities = {
  type: 'array', maxItems: 32, items: { type: 'string', minLength: 1, maxLength: 64 }
} as const

export const grantSchema = closedObject({
  deviceId, name: text, key, agreementKey: key, authorities, viaRelay: authorities, created: time,
  expires: time, maxOfflineSeconds: { type: 'integer', minimum: 0 }, by: text, nodeKey: key,
  nodeAgreementKey: key, signature: { type: 'string', pattern: '^[\\w-]{86}$' }
})

export const revocationSchema = closedObject({ deviceId, name: text, at: time, by: text, expires: time })

export const entrySchema = closedObject({
  grant: { anyOf: [{ type: 'null' }, grantSchema] },
  revoked: { anyOf: [{ type: 'null' }, revocationSchema] }
})

export const isDeviceId = (id: string): boolean => DEVICE_ID.test(id)

const bytes = (base64url: string): Buffer => Buffer.from(base64url, 'base64url')

/** Whether the device id matches the key and the node, which may have left, has signed the grant. */
export function isSignedByNode (grant: Grant): boolean {
  const [own, node] = [bytes(grant.key), bytes(grant.nodeKey)]
  return own.byteLength === KEY_BYTES && deviceIdOf(sha256(own)) === grant.deviceId &&
    isSignedBy(node, purposeBytes(GRANT, grantBytes(grant)), bytes(grant.signature))
}

/** Picks the valid one of two entries for a device: a revocation if there is one, else the newer grant. */
export function mergeEntries (a: Entry | undefined, b: Entry): Entry {
  if (a === undefined) return b
  const revoked = a.revoked === null || b.revoked === null
    ? a.revoked ?? b.revoked
    : a.revoked.at <= b.revoked.at ? a.revoked : b.revoked
  if (revoked !== null) return a.revoked === revoked ? a : { grant: null, revoked }
  return b.grant !== null && (a.grant === null || b.grant.created > a.grant.created) ? b : a
}

export const idOf = ({ grant, revoked }: Entry): string => grant?.deviceId ?? revoked?.deviceId ?? ''

/** Whether an entry has expired, with a margin for differences between the nodes' clocks. */
export function hasExpired ({ grant, revoked }: Entry, nowMs: number): boolean {
  return Date.parse(grant?.expires ?? revoked?.expires ?? '') + KEPT_MS <= nowMs
}
