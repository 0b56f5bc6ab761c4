import { defineService } from './plugin.js'

/** The key that this node is known by, for what plugins have to sign. Keys are raw: 32 bytes. */
export interface Identity {
  /** Ed25519. */
  readonly publicKey: Uint8Array
  /** X25519, static: for handshakes in which the other side knows this node. */
  readonly agreementKey: Uint8Array
  /** Ed25519 over the purpose and the message, so that no signature of one purpose counts for another. */
  sign (purpose: string, message: Uint8Array): Uint8Array
  /** X25519 of the static key with another public key. Throws for a key of low order. */
  agree (peer: Uint8Array): Uint8Array
  /** Those authorities that the member with this Ed25519 key may give; undefined when it is no member's. */
  vouched (publicKey: Uint8Array, authorities: readonly string[]): readonly string[] | undefined
  /** What each member's key is known by: base64url SHA-256 of its SPKI, by install id. */
  fingerprints (): ReadonlyMap<string, string>
}
export const IdentityService = defineService<Identity>('kernel.identity')
