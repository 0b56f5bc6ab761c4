import { createPrivateKey, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { createSecureContext } from 'node:tls'
import { pinOf } from './pin.js'
import type { KeyObject } from 'node:crypto'

/** The TLS identity of the API. */
export interface ServerIdentity {
  /** The private key as PEM. Never logged, never sent. */
  readonly key: string
  /** The certificates as PEM, the server's own first. */
  readonly cert: string
  /** Fingerprint of the key, as `pinOf` has it. */
  readonly fingerprint: string
  /** End of the first certificate, ms since 1970. */
  readonly until: number
  /** Whether the certificate is for this name or address. */
  covers (name: string): boolean
}

/** The source of a TLS identity. */
export interface IdentitySource {
  /** Path of the certificate authority for clients to trust; null without one. */
  readonly authority: string | null
  /** The new identity; null if unchanged. Throws IdentityError once for an unusable one, until a change. */
  next (): ServerIdentity | null
}

export class IdentityError extends Error {
  override readonly name = 'IdentityError'
}

/** Every certificate in a PEM text, in its order. Throws what X509Certificate throws. */
function certificatesIn (pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  return blocks.map((block) => new X509Certificate(block))
}

/** File names for the errors. */
export interface IdentityFiles { cert: string, key: string }

/** Puts key and certificates together. Throws IdentityError naming the file that is wrong. */
export function identityFrom (
  pem: { cert: string, key: string }, files: IdentityFiles, now: number
): ServerIdentity {
  const chain = attempt(`${files.cert} holds no certificate in PEM`, () => certificatesIn(pem.cert))
  const first = chain[0]
  if (first === undefined) throw new IdentityError(`${files.cert} holds no certificate in PEM`)
  const key = readKey(pem.key, files.key)
  if (!first.checkPrivateKey(key)) {
    throw new IdentityError(`the first certificate in ${files.cert} is not that of the key in ` +
      `${files.key}; name two that belong together, the server's own certificate before those that signed it`)
  }
  for (const one of chain) {
    const [from, until] = [Date.parse(one.validFrom), Date.parse(one.validTo)]
    const subject = one.subject.replace(/\n/g, ', ')
    if (now > until) throw new IdentityError(`${files.cert}: ${subject} has expired, on ${one.validTo}`)
    if (now < from) throw new IdentityError(`${files.cert}: ${subject} is not valid before ${one.validFrom}`)
  }
  attempt(`${files.cert} and ${files.key} cannot be used`, () => createSecureContext(pem))
  return {
    ...pem,
    fingerprint: pinOf(first),
    until: Math.min(...chain.map(({ validTo }) => Date.parse(validTo))),
    covers: (name) => (isIP(name) === 0 ? first.checkHost(name) : first.checkIP(name)) !== undefined
  }
}

function readKey (text: string, path: string): KeyObject {
  try {
    return createPrivateKey(text)
  } catch {
    throw new IdentityError(/^-----BEGIN ENCRYPTED|^Proc-Type: 4,ENCRYPTED/m.test(text)
      ? `${path} is encrypted; write it without a passphrase, for this user alone: openssl pkey -in ${path}`
      : `${path} holds no private key in PEM`)
  }
}

function attempt<T> (what: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new IdentityError(`${what}: ${(error as Error).message}`)
  }
}
