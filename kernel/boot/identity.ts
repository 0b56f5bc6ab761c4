import { createPrivateKey, hkdfSync, randomBytes } from 'node:crypto'
import { x25519, KEY_BYTES, keyPairOf, rawPrivate, rawPublic, signed } from '../net/keys.js'
import { base32, purposeBytes } from '../net/encoding.js'
import type { Identity } from '../api/identity.js'

const AGREEMENT = 'svc node agreement key'

/**
 * The node's key as a plugin service. The agreement key derives from it (HKDF-SHA-256), so that a home
 * has one secret to guard and restore. `members` gives the public keys of the cluster's members.
 */
export function createIdentity (
  { privateKeyPem }: { readonly privateKeyPem: string }, members: Pick<Identity, 'vouched' | 'fingerprints'>
): Identity {
  const privateKey = createPrivateKey(privateKeyPem)
  const seed = hkdfSync('sha256', rawPrivate(privateKey), new Uint8Array(0), AGREEMENT, KEY_BYTES)
  const agreement = keyPairOf('X25519', new Uint8Array(seed))
  return {
    publicKey: rawPublic(privateKey), agreementKey: agreement.publicKey,
    sign: (purpose, message) => signed(privateKey, purposeBytes(purpose, message)),
    agree: (peer) => x25519(agreement.privateKey, peer), ...members
  }
}

/** Creates a node id of 26 characters; every process start gets a new one. */
export const newNodeId = (): string => base32(randomBytes(16))
