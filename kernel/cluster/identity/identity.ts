import { createPrivateKey, hkdfSync } from 'node:crypto'
import {
  agreed, fingerprintOfRaw, KEY_BYTES, keyPairOf, rawPrivate, rawPublic, signed
} from '../../signing/keys.js'
import { purposeBytes } from '../../signing/protocol.js'
import { vouched } from './admission.js'
import type { Identity } from '../../api/identity.js'
import type { Members } from '../members/file.js'
import type { NodeKey } from './key.js'

/** HKDF's info for the agreement key. */
const AGREEMENT = 'svc node agreement key'

/**
 * The node's key for plugins. The agreement key derives from it (HKDF-SHA-256), so that a home has one secret
 * to guard and to restore.
 */
export function createIdentity (
  { privateKeyPem }: Pick<NodeKey, 'privateKeyPem'>, members: Pick<Members, 'current' | 'byFingerprint'>
): Identity {
  const privateKey = createPrivateKey(privateKeyPem)
  const seed = hkdfSync('sha256', rawPrivate(privateKey), new Uint8Array(0), AGREEMENT, KEY_BYTES)
  const agreement = keyPairOf('X25519', new Uint8Array(seed))
  return {
    publicKey: rawPublic(privateKey),
    agreementKey: agreement.publicKey,
    sign: (purpose, message) => signed(privateKey, purposeBytes(purpose, message)),
    agree: (peer) => agreed(agreement.privateKey, peer),
    vouched: (key, authorities) => {
      const member = members.byFingerprint(fingerprintOfRaw(key))
      return member && vouched(member, authorities)
    },
    fingerprints: () => new Map(members.current().members.map((m) => [m.installId, m.fingerprint]))
  }
}
