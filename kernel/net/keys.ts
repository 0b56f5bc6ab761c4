import {
  createHash, createPrivateKey, createPublicKey, diffieHellman, generateKeyPairSync, sign, verify
} from 'node:crypto'
import type { KeyObject } from 'node:crypto'

type Curve = 'Ed25519' | 'X25519'

/** DER prefixes for raw keys (RFC 8410): PKCS8 for private keys, SPKI for public keys. */
const PKCS8 = { Ed25519: '302e020100300506032b657004220420', X25519: '302e020100300506032b656e04220420' }
const SPKI = { Ed25519: '302a300506032b6570032100', X25519: '302a300506032b656e032100' }
export const KEY_BYTES = 32

export interface KeyPair { readonly privateKey: KeyObject, readonly publicKey: Buffer }

const wrapped = (head: string, raw: Uint8Array): Buffer => {
  const { byteLength } = raw
  if (byteLength !== KEY_BYTES) throw new RangeError(`a key has ${KEY_BYTES} bytes, not ${byteLength}`)
  return Buffer.concat([Buffer.from(head, 'hex'), raw])
}

export function publicKeyOf (curve: Curve, raw: Uint8Array): KeyObject {
  return createPublicKey({ key: wrapped(SPKI[curve], raw), format: 'der', type: 'spki' })
}

export function rawPublic (key: KeyObject): Buffer {
  const half = key.type === 'private' ? createPublicKey(key) : key
  return half.export({ type: 'spki', format: 'der' }).subarray(-KEY_BYTES)
}

/** The raw 32 bytes (the seed) of a private key; keep them secret. */
export function rawPrivate (key: KeyObject): Buffer {
  return key.export({ type: 'pkcs8', format: 'der' }).subarray(-KEY_BYTES)
}

export function keyPairOf (curve: Curve, raw: Uint8Array): KeyPair {
  const privateKey = createPrivateKey({ key: wrapped(PKCS8[curve], raw), format: 'der', type: 'pkcs8' })
  return { privateKey, publicKey: rawPublic(privateKey) }
}

export function newKeyPair (curve: Curve): KeyPair {
  // Two calls, since Node's types have no overload that accepts either curve.
  const { privateKey } = curve === 'Ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('x25519')
  return { privateKey, publicKey: rawPublic(privateKey) }
}

/** X25519 shared secret. Throws for a public key of low order (RFC 7748). */
export function x25519 (privateKey: KeyObject, peer: Uint8Array): Buffer {
  return diffieHellman({ privateKey, publicKey: publicKeyOf('X25519', peer) })
}

export const signed = (privateKey: KeyObject, message: Uint8Array): Buffer => sign(null, message, privateKey)

/** Whether a signature is valid; false also for an invalid key. */
export function isSignedBy (key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  try { return verify(null, message, publicKeyOf('Ed25519', key), signature) } catch { return false }
}

export const sha256 = (...parts: readonly Uint8Array[]): Buffer => {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest()
}

/** Fingerprint of a node's raw Ed25519 key: base64url SHA-256 of its SPKI. */
export const fingerprintOfRaw = (key: Uint8Array): string =>
  sha256(wrapped(SPKI.Ed25519, key)).toString('base64url')
