import { createHash, createPublicKey, sign, type KeyObject } from 'node:crypto'
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

const BOOLEAN = 0x01
const INTEGER = 0x02
const BIT_STRING = 0x03
const OCTET_STRING = 0x04
const OID = 0x06
const UTF8_STRING = 0x0c
const UTC_TIME = 0x17
const GENERALIZED_TIME = 0x18
const SEQUENCE = 0x30
const SET = 0x31
/** DER tags, constructed and context-specific: 0 for the field `version`, 3 for `extensions`. */
const VERSION = 0xa0
const EXTENSIONS = 0xa3

/** OID 2.5.4.3, commonName. */
const COMMON_NAME = Uint8Array.of(0x55, 0x04, 0x03)

/** Signature algorithms by key type: DER-encoded OID, and the digest to pass to `sign`. */
const algorithms = {
  /** 1.3.101.112, id-Ed25519 (RFC 8410). */
  ed25519: { oid: Uint8Array.of(0x2b, 0x65, 0x70), digest: null },
  /** 1.2.840.10045.4.3.2, ecdsa-with-SHA256 (RFC 5758). */
  ec: { oid: Uint8Array.of(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02), digest: 'sha256' }
} as const

/** Encodes one DER value: tag, length, contents. */
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

/** Encodes a time as in RFC 5280 4.1.2.5: two-digit years until 2049, four-digit years from then on. */
function timeOf (ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/\.\d+|\D/g, '')
  return digits < '2050'
    ? der(UTC_TIME, Buffer.from(`${digits.slice(2)}Z`))
    : der(GENERALIZED_TIME, Buffer.from(`${digits}Z`))
}

function pem (bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? []
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n')
}

/** Contents of a certificate. Names are short common names; times are ms since 1970. */
export interface CertificateParts {
  subject: string
  publicKey: KeyObject
  issuer: string
  signer: KeyObject
  serial: Uint8Array
  from: number
  until: number
  /** Extensions, each made by `extension`. */
  extensions?: readonly Buffer[]
}

/** Creates an X.509 v3 certificate (RFC 5280 4.1) as PEM. */
export function makeCertificate (parts: CertificateParts): string {
  const { signer, extensions = [] } = parts
  const { oid, digest } = algorithms[signer.asymmetricKeyType as keyof typeof algorithms]
  const algorithm = der(SEQUENCE, der(OID, oid))
  const body = der(SEQUENCE,
    der(VERSION, der(INTEGER, Uint8Array.of(2))),
    der(INTEGER, parts.serial),
    algorithm,
    nameOf(parts.issuer),
    der(SEQUENCE, timeOf(parts.from), timeOf(parts.until)),
    nameOf(parts.subject),
    parts.publicKey.export({ type: 'spki', format: 'der' }),
    ...extensions.length === 0 ? [] : [der(EXTENSIONS, der(SEQUENCE, ...extensions))])
  const signature = sign(digest, body, signer)
  return pem(der(SEQUENCE, body, algorithm, der(BIT_STRING, Uint8Array.of(0), signature)))
}

/** Encodes extension 2.5.29.n; `critical`: clients that do not support it must refuse the certificate. */
function extension (n: number, critical: boolean, value: Buffer): Buffer {
  return der(SEQUENCE, der(OID, Uint8Array.of(0x55, 0x1d, n)),
    ...critical ? [der(BOOLEAN, Uint8Array.of(0xff))] : [], der(OCTET_STRING, value))
}

/** Encodes a name or an address as in RFC 5280 4.2.1.6. */
function generalName (name: string): Buffer {
  return isIP(name) === 0
    ? der(0x82, Buffer.from(name, 'ascii'))
    : der(0x87, Uint8Array.from(ipaddr.parse(name).toByteArray()))
}

/** Identifier of a key in certificates; any 20 unique bytes will do (RFC 5280 4.2.1.2). */
function keyId (publicKey: KeyObject): Buffer {
  const spki = publicKey.export({ type: 'spki', format: 'der' })
  return createHash('sha256').update(spki).digest().subarray(0, 20)
}

/** OID 1.3.6.1.5.5.7.3.1, serverAuth. */
const SERVER_AUTH = Uint8Array.of(0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01)
const forServers = (): Buffer => extension(37, false, der(SEQUENCE, der(OID, SERVER_AUTH)))
const ofKey = (key: KeyObject): Buffer => extension(14, false, der(OCTET_STRING, keyId(key)))

/** Encodes a permitted subtree (RFC 5280 4.2.1.10): a DNS name including its subdomains, or a network. */
function subtree (permitted: string): Buffer {
  if (!permitted.includes('/')) return generalName(permitted)
  const [address, bits] = ipaddr.parseCIDR(permitted)
  const family = address.kind() === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6
  const mask = family.subnetMaskFromPrefixLength(bits)
  return der(0x87, Uint8Array.from([...address.toByteArray(), ...mask.toByteArray()]))
}

/** The extension that limits an authority to these DNS names, addresses and networks. */
export function nameConstraints (names: readonly string[], networks: readonly string[]): Buffer {
  const ranges = names.map((name) => isIP(name) === 0 ? name : `${name}/${isIP(name) === 4 ? 32 : 128}`)
  const permitted = [...ranges, ...networks].map((one) => der(SEQUENCE, subtree(one)))
  return extension(30, true, der(SEQUENCE, der(0xa0, ...permitted)))
}

/**
 * Extensions of an authority for servers with these names, addresses and networks; it may not sign other
 * authorities. The names are also its own subject names, since Node's API shows no name constraints.
 */
export function authorityExtensions (
  key: KeyObject, names: readonly string[], networks: readonly string[]
): Buffer[] {
  return [
    extension(19, true, der(SEQUENCE, der(BOOLEAN, Uint8Array.of(0xff)), der(INTEGER, Uint8Array.of(0)))),
    // Bit 5 of nine, keyCertSign; the 2 gives the number of unused bits.
    extension(15, true, der(BIT_STRING, Uint8Array.of(2, 0x04))),
    forServers(),
    extension(17, false, der(SEQUENCE, ...names.map(generalName))),
    nameConstraints(names, networks),
    ofKey(key)
  ]
}

/** Extensions of a server's certificate for these names and addresses. */
export function serverExtensions (key: KeyObject, issuer: KeyObject, names: readonly string[]): Buffer[] {
  return [
    extension(19, true, der(SEQUENCE)),
    // Bit 0, digitalSignature; the 7 gives the number of unused bits.
    extension(15, true, der(BIT_STRING, Uint8Array.of(7, 0x80))),
    forServers(),
    extension(17, false, der(SEQUENCE, ...names.map(generalName))),
    ofKey(key),
    extension(35, false, der(SEQUENCE, der(0x80, keyId(createPublicKey(issuer)))))
  ]
}
