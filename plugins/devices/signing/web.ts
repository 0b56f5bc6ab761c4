/** Device cryptography with WebCrypto only; browsers have `crypto.subtle` in a secure context only. */
import { base64url } from '../../../kernel/net/encoding.js'
import { ANSWER_KEY_BYTES, derived, DIGITS_BYTES, digitsOf } from './protocol.js'

type Bytes = Uint8Array<ArrayBuffer>
/** A WebCrypto key, possibly not extractable. */
export type WebKey = Parameters<typeof crypto.subtle.sign>[1]
type WebKeys = Record<'privateKey' | 'publicKey', WebKey>

export const randomBytes = (count: number): Bytes => crypto.getRandomValues(new Uint8Array(count))

export async function sha256 (bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}

/** A key pair with a private key that is not extractable and a raw public key. */
export interface WebPair { readonly privateKey: WebKey, readonly publicKey: Bytes }

export async function newWebPair (curve: 'Ed25519' | 'X25519'): Promise<WebPair> {
  const usages: ('sign' | 'deriveBits')[] = curve === 'Ed25519' ? ['sign'] : ['deriveBits']
  const { privateKey, publicKey } = await crypto.subtle.generateKey({ name: curve }, false, usages) as WebKeys
  return { privateKey, publicKey: new Uint8Array(await crypto.subtle.exportKey('raw', publicKey)) }
}

/** An Ed25519 signature, 64 bytes. */
export async function signedWith (key: WebKey, message: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.sign('Ed25519', key, message))
}

/** Verifies an Ed25519 signature. Returns false for a malformed key or signature too. */
export async function isSignedBy (key: Bytes, message: Bytes, signature: Bytes): Promise<boolean> {
  try {
    const held = await crypto.subtle.importKey('raw', key, 'Ed25519', false, ['verify'])
    return await crypto.subtle.verify('Ed25519', held, signature, message)
  } catch {
    return false
  }
}

/** Fingerprint of a node's raw Ed25519 key: base64url SHA-256 of its SPKI; undefined if invalid. */
export async function fingerprintOf (key: Bytes): Promise<string | undefined> {
  try {
    const held = await crypto.subtle.importKey('raw', key, 'Ed25519', true, ['verify'])
    return base64url(await sha256(new Uint8Array(await crypto.subtle.exportKey('spki', held))))
  } catch {
    return undefined
  }
}

export interface PairingResult {
  readonly digits: string
  readonly isAnswer: (mac: Bytes, text: string) => Promise<boolean>
}

/** Derives the digits by X25519 (RFC 7748) and HKDF over the transcript hash. Throws for a low-order key. */
export async function compared (
  privateKey: WebKey, peer: Bytes, transcriptHash: Bytes
): Promise<PairingResult> {
  const { subtle } = crypto
  const peerKey = await subtle.importKey('raw', peer, 'X25519', true, [])
  const shared = await subtle.deriveBits({ name: 'X25519', public: peerKey }, privateKey, SHARED_BITS)
  const secret = await subtle.importKey('raw', shared, 'HKDF', false, ['deriveBits'])
  const make = async (info: string, bytes: number): Promise<Bytes> => {
    const how = { name: 'HKDF', hash: 'SHA-256', salt: transcriptHash, info: utf8.encode(info) }
    return new Uint8Array(await subtle.deriveBits(how, secret, bytes * 8))
  }
  const hmac = { name: 'HMAC', hash: 'SHA-256' }
  const answerKey = await subtle.importKey('raw', await make(derived.answer, ANSWER_KEY_BYTES), hmac, false,
    ['verify'])
  return {
    digits: digitsOf(await make(derived.digits, DIGITS_BYTES)),
    isAnswer: async (mac, text) => await subtle.verify('HMAC', answerKey, mac, utf8.encode(text))
  }
}

const SHARED_BITS = 256
const utf8 = new TextEncoder()
