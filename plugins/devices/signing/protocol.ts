/**
 * The protocol of paired devices: the bytes to sign, hash and show, without cryptography, so that nodes, the
 * command line and browsers agree. Binary values travel as base64url (RFC 4648) without padding. Examples for
 * other implementations: plugins/devices/test/signing-vectors.json.
 */

import { base32, framed } from '../../../kernel/net/encoding.js'

export const SIGNATURE_SCHEME = 'SVC1'
/** Prefix of the short-lived bearer tokens of devices. */
export const DEVICE_BEARER = 'svc_dev_'
/** Maximum difference in ms between the time in a signed request and the node's time. */
export const WINDOW_MS = 60_000

/** The data that a device sends during pairing; the operator sees `name`. */
export interface DeviceHalf {
  /** Raw Ed25519 public key. */
  readonly key: Uint8Array
  /** Raw static X25519 public key, for relays. */
  readonly agreementKey: Uint8Array
  /** Raw X25519 public key for this pairing only. */
  readonly ephemeral: Uint8Array
  readonly nonce: Uint8Array
  readonly name: string
}

export type NodeHalf = Omit<DeviceHalf, 'name'>

/** The device commits to the SHA-256 of these bytes before it sees data from the node. */
export function commitBytes (device: DeviceHalf): Uint8Array<ArrayBuffer> {
  const { key, agreementKey, ephemeral, nonce, name } = device
  return framed('svc pair commit 1', key, agreementKey, ephemeral, nonce, name)
}

/** The bytes of all messages in a pairing; their SHA-256 is the transcript hash. */
export function transcriptBytes (
  commit: Uint8Array, node: NodeHalf, device: DeviceHalf
): Uint8Array<ArrayBuffer> {
  return framed('svc pair 1', commit, node.key, node.agreementKey, node.ephemeral, node.nonce,
    device.key, device.agreementKey, device.ephemeral, device.nonce, device.name)
}

/** HKDF info for keys from the ephemeral X25519 secret, with the transcript hash as the salt. */
export const derived = { digits: 'svc pair digits', answer: 'svc pair answer' } as const
/** HKDF output lengths in bytes for the digits, and for the key that authenticates the node's last answer. */
export const DIGITS_BYTES = 8
export const ANSWER_KEY_BYTES = 32

/** The six digits both sides show: 64 derived bits, big endian, modulo a million. */
export function digitsOf (bits: Uint8Array): string {
  const number = new DataView(bits.buffer, bits.byteOffset, DIGITS_BYTES).getBigUint64(0)
  return String(number % 1_000_000n).padStart(6, '0')
}

/** The device's signature over these bytes proves that it holds the key. */
export const proofBytes = (transcriptHash: Uint8Array): Uint8Array<ArrayBuffer> =>
  framed('svc pair device 1', transcriptHash)

/** A device's id from the SHA-256 of its raw Ed25519 key. */
export const deviceIdOf = (keySha256: Uint8Array): string => base32(keySha256)

/** The parts of a signed request that the signature covers. */
export interface SignedRequest {
  readonly method: string
  readonly nodeId: string
  /** Path and query, as sent. */
  readonly target: string
  /** SHA-256 of the body, base64url. */
  readonly body: string
  /** Milliseconds since 1970 by the node's clock, as far as the device knows it. */
  readonly ts: number
  /** 96 random bits, base64url. */
  readonly nonce: string
}

export function requestText ({ method, nodeId, target, body, ts, nonce }: SignedRequest): string {
  return `${method}\n${nodeId}\n${target}\n${body}\n${ts}\n${nonce}`
}

export interface SignedCredential extends Pick<SignedRequest, 'body' | 'ts' | 'nonce'> {
  readonly device: string
  readonly signature: string
}

export function writeCredential ({ device, ts, nonce, body, signature }: SignedCredential): string {
  return `dev=${device},ts=${ts},n=${nonce},b=${body},s=${signature}`
}

const CREDENTIAL = /^dev=([a-z2-7]{52}),ts=(\d{1,15}),n=([\w-]{16}),b=([\w-]{43}),s=([\w-]{86})$/

/** Parses the credential of a signed request; undefined if it is malformed. */
export function readCredential (text: string): SignedCredential | undefined {
  const [, device, ts, nonce, body, signature] = CREDENTIAL.exec(text) ?? []
  // Needed only for the type checker: a match always has all groups.
  if (device === undefined || nonce === undefined || body === undefined) return undefined
  if (signature === undefined) return undefined
  return { device, ts: Number(ts), nonce, body, signature }
}

/** Part of a node's answer when it refuses a known device's signature: its id and time, for a retry. */
export interface ClockCorrection {
  readonly nodeId: string
  readonly timeMs: number
  /** Nonce of the refused request. */
  readonly nonce: string
}

/** Purpose string for a node's signature on a correction, and the bytes to sign. */
export const CORRECTION = 'correction'
export const correctionBytes = ({ nodeId, timeMs, nonce }: ClockCorrection): Uint8Array<ArrayBuffer> =>
  framed(nodeId, String(timeMs), nonce)

/** A node of the device's cluster; `fingerprint` identifies its public key. */
export interface KnownNode {
  readonly installId: string
  readonly name: string
  readonly url: string | null
  readonly fingerprint: string
}

/** A device's authorities and their expiry, signed by the confirming node. Times are ISO-8601. */
export interface Grant {
  readonly deviceId: string
  readonly name: string
  /** The device's raw Ed25519 and X25519 public keys, base64url. */
  readonly key: string
  readonly agreementKey: string
  readonly authorities: readonly string[]
  /** Authorities that also apply through a relay. */
  readonly viaRelay: readonly string[]
  readonly created: string
  readonly expires: string
  /** Seconds for which a node without contact with its cluster trusts the grant. */
  readonly maxOfflineSeconds: number
  /** Id of the caller that confirmed the pairing. */
  readonly by: string
  /** Raw Ed25519 and X25519 public keys of the node that signed the grant, base64url. */
  readonly nodeKey: string
  readonly nodeAgreementKey: string
  readonly signature: string
}

export const GRANT = 'grant'

/** The bytes of a grant that the node signs. */
export function grantBytes (grant: Omit<Grant, 'signature'>): Uint8Array<ArrayBuffer> {
  return framed('svc grant 1', grant.deviceId, grant.name, grant.key, grant.agreementKey,
    framed(...grant.authorities), framed(...grant.viaRelay), grant.created, grant.expires,
    String(grant.maxOfflineSeconds), grant.by, grant.nodeKey, grant.nodeAgreementKey)
}
