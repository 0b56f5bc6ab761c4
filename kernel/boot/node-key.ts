import {
  createHash, createPrivateKey, createPublicKey, generateKeyPairSync, X509Certificate, type KeyObject
} from 'node:crypto'
import { join } from 'node:path'
import { HomeError, readText, writeWhole } from './home.js'

export const identityFile = {
  key: 'node.key',
  certificate: 'node.crt',
  members: 'state/members.json',
  joinTokens: 'state/join-tokens.json'
} as const

/** The key that identifies this node to other nodes, and the certificate that carries it. */
export interface NodeKey {
  readonly installId: string
  /** PKCS8, Ed25519. Never logged, never sent. */
  readonly privateKeyPem: string
  /** Self-signed, CN = installId; other nodes check only its key. */
  readonly certificatePem: string
  /** base64url SHA-256 of the public key's SPKI DER, 43 characters. */
  readonly fingerprint: string
}

function fingerprintOfKey (key: KeyObject): string {
  return createHash('sha256').update(key.export({ type: 'spki', format: 'der' })).digest('base64url')
}

/** Fingerprint of a certificate's key: base64url SHA-256 of its SPKI DER, 43 characters. */
export function fingerprintOf (certificate: X509Certificate): string {
  return fingerprintOfKey(certificate.publicKey)
}

const pemOf = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' }).toString()

function readKey (path: string): KeyObject | undefined {
  const text = readText(path, 'secret')
  if (text === undefined) return undefined
  let key: KeyObject
  try {
    key = createPrivateKey(text)
  } catch {
    throw new HomeError(`${path} contains no private key in PEM; restore it from a backup`)
  }
  if (key.asymmetricKeyType !== 'ed25519') {
    throw new HomeError(`${path} contains a key of type ${String(key.asymmetricKeyType)}, not ed25519; ` +
      'restore it from a backup')
  }
  return key
}

function makeKey (home: string, path: string): KeyObject {
  // If the certificate exists, the key was lost; the cluster would not accept a new key for this node.
  const certificate = join(home, identityFile.certificate)
  if (readText(certificate, 'public') !== undefined) {
    const members = join(home, identityFile.members)
    throw new HomeError(`${path} is missing, ${certificate} is there; restore the key from a backup, or ` +
      `run: rm -f ${certificate} ${members} and join the cluster again as a new node`)
  }
  const { privateKey } = generateKeyPairSync('ed25519')
  writeWhole(path, pemOf(privateKey))
  return privateKey
}

/** The stored certificate, or undefined when there is none or it names another install id. */
function readCertificate (path: string, installId: string, fingerprint: string): string | undefined {
  const text = readText(path, 'public')
  if (text === undefined) return undefined
  let certificate: X509Certificate
  let found: string
  try {
    certificate = new X509Certificate(text)
    found = fingerprintOf(certificate)
  } catch {
    throw new HomeError(`${path} is not a certificate; run: rm ${path} (it is made again from the key)`)
  }
  if (found !== fingerprint) {
    throw new HomeError(`${path} belongs to another key than the one beside it; restore the pair from a ` +
      `backup, or run: rm ${path} (it is made again from the key)`)
  }
  return certificate.subject === `CN=${installId}` ? text : undefined
}

/**
 * Opens the node's key and certificate; creates them on the first start (node.key 0600, node.crt). Throws
 * HomeError if one is invalid or lost, or if other users can read the key.
 */
export async function openNodeKey (home: string, installId: string): Promise<NodeKey> {
  const keyPath = join(home, identityFile.key)
  const certificatePath = join(home, identityFile.certificate)
  const key = readKey(keyPath) ?? makeKey(home, keyPath)
  const fingerprint = fingerprintOfKey(createPublicKey(key))
  let certificatePem = readCertificate(certificatePath, installId, fingerprint)
  if (certificatePem === undefined) {
    certificatePem = await certificateOf(key, installId)
    writeWhole(certificatePath, certificatePem)
  }
  return { installId, privateKeyPem: pemOf(key), certificatePem, fingerprint }
}

/** Clocks of nodes differ and no node checks the validity, so it spans all time (RFC 5280 4.1.2.5). */
const FROM = Date.UTC(2020, 0, 1)
const NEVER = Date.UTC(9999, 11, 31, 23, 59, 59)

/**
 * Creates the key's self-signed TLS certificate, without extensions, since nodes check only the key. The
 * result is deterministic. `commonName` must be short, like an install id.
 */
async function certificateOf (key: KeyObject, commonName: string): Promise<string> {
  // Imported on demand, since the library takes 40 ms of the start.
  const { makeCertificate } = await import('../http/tls/x509.js')
  return makeCertificate({
    subject: commonName, publicKey: createPublicKey(key), issuer: commonName, signer: key,
    serial: Uint8Array.of(1), from: FROM, until: NEVER
  })
}
