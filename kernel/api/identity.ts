import { defineService } from './plugin.js'

export interface Identity {
  readonly publicKey: Uint8Array
  /** X25519, static: for handshakes in which the other side knows this node. */
  readonly agreementKey: Uint8Array
  /** Ed25519 over the purpose and the message, so that no signature of one purpose counts for another. */
  sign (purpose: string, message: Uint8Array): Uint8Array
  /** X25519 of the static key with another public key. Throws for a key of low order. */
  agree (peer: Uint8Array): Uint8Array
  /** Those authorities that the member with this Ed25519 key may give; undefined if it is no member's key. */
  vouched (publicKey: Uint8Array, authorities: readonly string[]): readonly string[] | undefined
  /** Fingerprints of the members' keys, by install id: base64url SHA-256 of the SPKI. */
  fingerprints (): ReadonlyMap<string, string>
}
export const IdentityService = defineService<Identity>('kernel.identity')
