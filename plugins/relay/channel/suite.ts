import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto'
import { x25519, KEY_BYTES, keyPairOf } from '../../../kernel/index.js'

export const TAG_BYTES = 16

/** An X25519 key pair that does not expose its private key. Keys are raw bytes. */
export interface Agreement {
  readonly publicKey: Uint8Array
  /** Computes the secret shared with `peer`. Throws for a low-order key, with which the secret is public. */
  agree (peer: Uint8Array): Uint8Array
}

/** Derives the key pair from 32 secret bytes, all of which are valid (RFC 7748, section 5). */
export function agreementOf (secret: Uint8Array): Agreement {
  const { privateKey, publicKey } = keyPairOf('X25519', secret)
  return { publicKey, agree: (peer) => x25519(privateKey, peer) }
}

export function hash (...parts: readonly Uint8Array[]): Uint8Array {
  const sum = createHash('sha256')
  for (const part of parts) sum.update(part)
  return sum.digest()
}

/** The two keys of Noise's HKDF (revision 34, 4.3): RFC 5869 with the chaining key as salt. */
export function derive (chainingKey: Uint8Array, input: Uint8Array): [Uint8Array, Uint8Array] {
  const both = new Uint8Array(hkdfSync('sha256', input, chainingKey, '', 2 * KEY_BYTES))
  return [both.subarray(0, KEY_BYTES), both.subarray(KEY_BYTES)]
}

/** The AES-GCM nonce: 32 zero bits, then the counter, big-endian (Noise revision 34, 12.4). */
function nonceOf (counter: bigint): Buffer {
  const nonce = Buffer.alloc(12)
  nonce.writeBigUInt64BE(counter, 4)
  return nonce
}

export function seal (key: Uint8Array, counter: bigint, aad: Uint8Array, plain: Uint8Array): Uint8Array {
  const cipher = createCipheriv('aes-256-gcm', key, nonceOf(counter))
  cipher.setAAD(aad)
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** Decrypts a message. Throws if the message was altered, or if the key or the counter is wrong. */
export function unseal (key: Uint8Array, counter: bigint, aad: Uint8Array, sealed: Uint8Array): Uint8Array {
  if (sealed.length < TAG_BYTES) throw new Error('the message is shorter than its tag')
  const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(counter))
  decipher.setAAD(aad)
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES))
  return Buffer.concat([decipher.update(sealed.subarray(0, sealed.length - TAG_BYTES)), decipher.final()])
}
