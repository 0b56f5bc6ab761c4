import { createHash, type X509Certificate } from 'node:crypto'

/** Prefix of a fingerprint, as in curl's `--pinnedpubkey`; the key's base64 SHA-256 follows. */
const PREFIX = 'sha256//'

/**
 * Fingerprint of a certificate's key (RFC 7469): `sha256//` and the SHA-256 of its SPKI in base64. A renewed
 * certificate with the same key has the same fingerprint.
 */
export function pinOf (certificate: X509Certificate): string {
  const spki = certificate.publicKey.export({ type: 'spki', format: 'der' })
  return PREFIX + createHash('sha256').update(spki).digest('base64')
}

/** Normalises a typed fingerprint, which may lack the prefix or be in base64url; null if invalid. */
export function readPin (text: string): string | null {
  const digest = text.trim().replace(/^sha256(\/\/|:)/i, '').replace(/-/g, '+').replace(/_/g, '/')
  return /^[A-Za-z0-9+/]{43}=?$/.test(digest) ? `${PREFIX}${digest.slice(0, 43)}=` : null
}
