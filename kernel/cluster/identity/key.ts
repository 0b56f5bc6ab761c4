import {
  createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign, X509Certificate
} from 'node:crypto'
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { HomeError, writeWhole } from '../../boot/home.js'
import type { KeyObject } from 'node:crypto'

/** Where the identity lies in a home. */
export const identityFile = {
  key: 'node.key',
  certificate: 'node.crt',
  members: 'state/members.json',
  joinTokens: 'state/join-tokens.json'
} as const

/**
 * Text of a file; undefined when it is missing. Throws HomeError when it cannot be read and, for a secret,
 * when somebody but its owner could read or write it.
 */
export function readText (path: string, kind: 'secret' | 'public'): string | undefined {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new HomeError(`cannot read ${path}: ${(error as Error).message}`)
  }
  try {
    if (kind === 'secret' && (fstatSync(file).mode & 0o077) !== 0) {
      throw new HomeError(`${path} can be read by others; run: chmod 600 ${path}`)
    }
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof HomeError) throw error
    throw new HomeError(`cannot read ${path}: ${(error as Error).message}`)
  } finally {
    closeSync(file)
  }
}

/** The key a node is known by on links, and the certificate that carries it. */
export interface NodeKey {
  readonly installId: string
  /** PKCS8, Ed25519. Never logged, never sent. */
  readonly privateKeyPem: string
  /** Self-signed, CN = installId; only its key means anything. */
  readonly certificatePem: string
  /** base64url SHA-256 of the public key's SPKI DER, 43 characters. */
  readonly fingerprint: string
}

/** base64url SHA-256 of a public key's SPKI DER. */
function fingerprintOfKey (key: KeyObject): string {
  return createHash('sha256').update(key.export({ type: 'spki', format: 'der' })).digest('base64url')
}

/** What a certificate's key is known by: base64url SHA-256 of its SPKI DER, 43 characters. */
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
    throw new HomeError(`${path} holds no private key in PEM; restore it from a backup`)
  }
  if (key.asymmetricKeyType !== 'ed25519') {
    throw new HomeError(`${path} holds a key of kind ${String(key.asymmetricKeyType)}, not ed25519; ` +
      'restore it from a backup')
  }
  return key
}

function makeKey (home: string, path: string): KeyObject {
  // A certificate without its key: the key was lost, and a new one would be a stranger to the cluster.
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
 * Opens the node's key and certificate; makes them at the first start (node.key 0600, node.crt). Throws
 * HomeError when the key can be read by others, is lost, or when one of the two is broken.
 */
export async function openNodeKey (home: string, installId: string): Promise<NodeKey> {
  const keyPath = join(home, identityFile.key)
  const certificatePath = join(home, identityFile.certificate)
  const key = readKey(keyPath) ?? makeKey(home, keyPath)
  const fingerprint = fingerprintOfKey(createPublicKey(key))
  let certificatePem = readCertificate(certificatePath, installId, fingerprint)
  if (certificatePem === undefined) {
    certificatePem = makeCertificate(key, installId)
    writeWhole(certificatePath, certificatePem)
  }
  return { installId, privateKeyPem: pemOf(key), certificatePem, fingerprint }
}

const SEQUENCE = 0x30
const SET = 0x31
const INTEGER = 0x02
const BIT_STRING = 0x03
const OID = 0x06
const UTF8_STRING = 0x0c
const UTC_TIME = 0x17
const GENERALIZED_TIME = 0x18
/** Constructed, context-specific 0: the field `version`. */
const VERSION = 0xa0

/** 1.3.101.112, id-Ed25519 (RFC 8410). */
const ED25519 = Uint8Array.of(0x2b, 0x65, 0x70)
/** 2.5.4.3, commonName. */
const COMMON_NAME = Uint8Array.of(0x55, 0x04, 0x03)
/** Clocks of nodes differ and nothing judges these: as early as makes sense, and never (RFC 5280 4.1.2.5). */
const NOT_BEFORE = '200101000000Z'
const NOT_AFTER = '99991231235959Z'

/** One DER value: tag, length, contents. */
function der (tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts)
  const { length } = body
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...head]), body])
}

function nameOf (commonName: string): Buffer {
  const attribute = der(SEQUENCE, der(OID, COMMON_NAME), der(UTF8_STRING, Buffer.from(commonName)))
  return der(SEQUENCE, der(SET, attribute))
}

function pem (bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? []
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n')
}

/**
 * A self-signed X.509 v3 certificate (RFC 5280 4.1) of an Ed25519 key, as PEM: TLS carries a key in one. It
 * has no extensions, since nothing but its key is ever looked at. The same key and name give the same bytes.
 * `commonName` is short (an install id).
 */
function makeCertificate (privateKey: KeyObject, commonName: string): string {
  const algorithm = der(SEQUENCE, der(OID, ED25519))
  const name = nameOf(commonName)
  const body = der(SEQUENCE,
    der(VERSION, der(INTEGER, Uint8Array.of(2))),
    der(INTEGER, Uint8Array.of(1)),
    algorithm,
    name,
    der(SEQUENCE, der(UTC_TIME, Buffer.from(NOT_BEFORE)), der(GENERALIZED_TIME, Buffer.from(NOT_AFTER))),
    name,
    createPublicKey(privateKey).export({ type: 'spki', format: 'der' }))
  const signature = sign(null, body, privateKey)
  return pem(der(SEQUENCE, body, algorithm, der(BIT_STRING, Uint8Array.of(0), signature)))
}
