import { defineService } from './plugin.js'

export interface Identity {
  readonly publicKey: Uint8Array
  /** Static X25519 public key, for handshakes in which the peer already knows this node. */
  readonly agreementKey: Uint8Array
  /** Signs purpose and message with Ed25519, so that a signature for one purpose is invalid for another. */
  sign (purpose: string, message: Uint8Array): Uint8Array
  /** X25519 shared secret of the static key and a peer's public key. Throws for a public key of low order. */
  agree (peer: Uint8Array): Uint8Array
  /** The authorities that the member with this Ed25519 key may grant; undefined if no member has this key. */
  vouched (publicKey: Uint8Array, authorities: readonly string[]): readonly string[] | undefined
  /** Fingerprints of the members' keys, by install id: base64url SHA-256 of the SPKI. */
  fingerprints (): ReadonlyMap<string, string>
}
export const IdentityService = defineService<Identity>('kernel.identity')
