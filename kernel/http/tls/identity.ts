import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto'
import { isIP } from 'node:net'
import { createSecureContext } from 'node:tls'
import { pinOf } from './pin.js'

export interface ServerIdentity {
  /** The private key as PEM. Never logged, never sent. */
  readonly key: string
  /** The certificates as PEM, starting with the server's own. */
  readonly cert: string
  /** Fingerprint of the key as `pinOf` returns it. */
  readonly fingerprint: string
  /** Expiry of the first certificate in ms since 1970. */
  readonly until: number
  /** Whether the certificate is valid for this name or address. */
  covers (name: string): boolean
}

export interface IdentitySource {
  /** Path of the certificate authority that clients must trust; null if there is none. */
  readonly authority: string | null
  /** The identity if it has changed, else null. Throws IdentityError once for each unusable change. */
  next (): ServerIdentity | null
}

export class IdentityError extends Error { override readonly name = 'IdentityError' }

/** Throws X509Certificate's errors. */
function certificatesIn (pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  return blocks.map((block) => new X509Certificate(block))
}

export interface IdentityFiles { cert: string, key: string }

/** Combines key and certificates into an identity. Throws IdentityError naming the faulty file. */
export function identityFrom (
  pem: { cert: string, key: string }, files: IdentityFiles, now: number
): ServerIdentity {
  const chain = attempt(`${files.cert} contains no certificate in PEM`, () => certificatesIn(pem.cert))
  const first = chain[0]
  if (first === undefined) throw new IdentityError(`${files.cert} contains no certificate in PEM`)
  const key = readKey(pem.key, files.key)
  if (!first.checkPrivateKey(key)) {
    throw new IdentityError(`the first certificate in ${files.cert} does not match the key in ` +
      `${files.key}; set a matching pair, with the server's own certificate before those that signed it`)
  }
  for (const one of chain) {
    const [from, until] = [Date.parse(one.validFrom), Date.parse(one.validTo)]
    const subject = one.subject.replace(/\n/g, ', ')
    if (now > until) throw new IdentityError(`${files.cert}: ${subject} has expired, on ${one.validTo}`)
    if (now < from) throw new IdentityError(`${files.cert}: ${subject} is not valid before ${one.validFrom}`)
  }
  attempt(`${files.cert} and ${files.key} cannot be used`, () => createSecureContext(pem))
  return {
    ...pem, fingerprint: pinOf(first),
    until: Math.min(...chain.map(({ validTo }) => Date.parse(validTo))),
    covers: (name) => (isIP(name) === 0 ? first.checkHost(name) : first.checkIP(name)) !== undefined
  }
}

function readKey (text: string, path: string): KeyObject {
  try {
    return createPrivateKey(text)
  } catch {
    throw new IdentityError(/^-----BEGIN ENCRYPTED|^Proc-Type: 4,ENCRYPTED/m.test(text)
      ? `${path} is encrypted; store it without a passphrase, for this user only: openssl pkey -in ${path}`
      : `${path} contains no private key in PEM`)
  }
}

function attempt<T> (what: string, work: () => T): T {
  try { return work() } catch (error) { throw new IdentityError(`${what}: ${(error as Error).message}`) }
}
