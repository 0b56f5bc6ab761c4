import { createHash } from 'node:crypto'
import { framed, isSignedBy, KEY_BYTES, purposeBytes } from '../../kernel/index.js'

/**
 * The unencrypted part of the relay protocol: JSON texts that precede the encrypted messages. node -> relay,
 * /v1/node      relay: {challenge}   node: {key, signature}   relay: {route} relay: {device: ticket} for each
 * device that asks device -> relay, /v1/device  device: {route}, then its handshake node -> relay, /v1/accept
 * node: {ticket}, then the device's messages, in both directions
 */
export const paths = { node: '/v1/node', device: '/v1/device', accept: '/v1/accept' } as const

/** The WebSocket URL of a relay from its http(s) or ws(s) URL. */
export function socketUrl (url: string, path: string): URL {
  const at = new URL(path, url)
  at.protocol = at.protocol.replace(/^http/, 'ws')
  return at
}

export const closes = {
  /** An invalid or late message. */
  wrong: 4400,
  /** The signature is invalid or for another relay. */
  unproven: 4403,
  /** No node has that route, or the node did not accept the device. */
  nobody: 4404,
  /** Another connection has claimed the route. */
  replaced: 4409,
  /** Too many connections, or this one reads too slowly. */
  full: 4429
} as const

export const SECRET_BYTES = 32

/** A node's route: the base64url SHA-256 of its raw Ed25519 key, which cannot be guessed without the key. */
export function routeOf (publicKey: Uint8Array): string {
  return createHash('sha256').update('svc relay route\n').update(publicKey).digest('base64url')
}

export const purposes = { claim: 'relay claim', route: 'relay route' } as const

/** The bytes that a node signs to claim its route at the relay of this host. */
export const claimBytes = (host: string, challenge: string): Uint8Array =>
  framed(host.toLowerCase(), challenge)

/** The bytes that a node signs for its relay URL and X25519 key. */
export const routeBytes = (url: string, agreementKey: Uint8Array): Uint8Array => framed(url, agreementKey)

/** Returns the route for a claim with a valid signature; undefined if the signature is invalid. */
export function provenRoute (
  claim: { readonly key: string, readonly signature: string }, message: Uint8Array
): string | undefined {
  const key = Buffer.from(claim.key, 'base64url')
  const fits = key.length === KEY_BYTES &&
    isSignedBy(key, purposeBytes(purposes.claim, message), Buffer.from(claim.signature, 'base64url'))
  return fits ? routeOf(key) : undefined
}

/** The node's id and time (ms since 1970), encrypted, so that a device can sign its first request. */
export const writeHello = (nodeId: string, timeMs: number): Uint8Array =>
  Buffer.from(JSON.stringify({ nodeId, time: String(timeMs) }))

export function readHello (payload: Uint8Array): { nodeId: string, timeMs: number } | undefined {
  const texts = readTexts(payload, false, ['nodeId', 'time'])
  const timeMs = Number(texts?.time)
  return texts !== undefined && Number.isSafeInteger(timeMs) ? { nodeId: texts.nodeId, timeMs } : undefined
}

/** Parses a protocol message: an object of strings. Undefined for anything else, or above 2 KiB. */
export function readTexts<const K extends string> (
  data: Uint8Array, binary: boolean, keys: readonly K[]
): Record<K, string> | undefined {
  if (binary || data.length > 2048) return undefined
  try {
    const value = JSON.parse(Buffer.from(data).toString()) as unknown
    if (typeof value !== 'object' || value === null) return undefined
    const fields = value as Record<string, unknown>
    const fits = Object.keys(fields).length === keys.length && keys.every((key) =>
      Object.hasOwn(fields, key) && typeof fields[key] === 'string')
    return fits ? fields as Record<K, string> : undefined
  } catch { return undefined }
}
