import { newKeyPair, purposeBytes, sha256, signed, type Clock, type Section } from '../../../kernel/index.js'
import { deviceIdOf, GRANT, grantBytes, type Grant } from '../signing/protocol.js'
import type { Entry, Revocation } from '../grants.js'

export const DAY_MS = 86_400_000
export const node = newKeyPair('Ed25519')
export const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url')
export const at = (ms: number): string => new Date(ms).toISOString()

export function grantOf (clock: Clock, days = 1, key = newKeyPair('Ed25519').publicKey): Grant {
  const unsigned = {
    deviceId: deviceIdOf(sha256(key)), name: 'phone', key: text(key), agreementKey: text(key),
    authorities: ['read'], viaRelay: [], created: at(clock.now()), expires: at(clock.now() + days * DAY_MS),
    maxOfflineSeconds: 60, by: 'operator', nodeKey: text(node.publicKey), nodeAgreementKey: text(key)
  }
  const signature = signed(node.privateKey, purposeBytes(GRANT, grantBytes(unsigned)))
  return { ...unsigned, signature: text(signature) }
}

export const revocationOf = ({ deviceId, name, expires }: Grant, ms: number): Revocation =>
  ({ deviceId, name, expires, at: at(ms), by: 'operator' })

export function memorySection (): Section<Entry> & { readonly bytes: number, readonly size: number } {
  const entries = new Map<string, Entry>()
  return {
    put: (key, value) => { entries.set(key, value) },
    remove: (key) => { entries.delete(key) },
    get: (key) => entries.get(key),
    entries: () => [...entries].map(([key, value]) => ({ nodeId: '', key, value })),
    observe: () => () => {},
    get bytes () { return JSON.stringify([...entries]).length },
    get size () { return entries.size }
  }
}

export const refuse = (reason: string): never => { throw Object.assign(new Error(reason), { reason }) }
