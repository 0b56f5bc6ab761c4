import { createHash, createPublicKey, sign, X509Certificate, type KeyObject } from 'node:crypto'
import { isIP } from 'node:net'
import { AsnConvert, OctetString } from '@peculiar/asn1-schema'
import * as asn from '@peculiar/asn1-x509'

/** Signature algorithms by key type: OID, and the digest to pass to `sign`. */
const algorithms = {
  /** id-Ed25519 (RFC 8410). */
  ed25519: { algorithm: '1.3.101.112', digest: null },
  /** ecdsa-with-SHA256 (RFC 5758). */
  ec: { algorithm: '1.2.840.10045.4.3.2', digest: 'sha256' }
} as const

const encode = (value: unknown): Buffer => Buffer.from(AsnConvert.serialize(value))

/** A name that consists of a commonName (OID 2.5.4.3). */
function nameOf (commonName: string): asn.Name {
  const value = new asn.AttributeValue({ utf8String: commonName })
  const attribute = new asn.AttributeTypeAndValue({ type: '2.5.4.3', value })
  return new asn.Name([new asn.RelativeDistinguishedName([attribute])])
}

/** Contents of a certificate. Names are short common names; times are ms since 1970. */
export interface CertificateParts {
  subject: string
  publicKey: KeyObject
  issuer: string
  signer: KeyObject
  serial: Uint8Array<ArrayBuffer>
  from: number
  until: number
  /** Extensions, each made by `extension`. */
  extensions?: readonly asn.Extension[]
}

/** Creates an X.509 v3 certificate (RFC 5280 4.1) as PEM. */
export function makeCertificate (parts: CertificateParts): string {
  const { signer, publicKey, serial, extensions } = parts
  const { algorithm, digest } = algorithms[signer.asymmetricKeyType as keyof typeof algorithms]
  const signature = new asn.AlgorithmIdentifier({ algorithm })
  const tbsCertificate = new asn.TBSCertificate({
    version: asn.Version.v3, serialNumber: serial.buffer, signature,
    issuer: nameOf(parts.issuer), subject: nameOf(parts.subject),
    validity: new asn.Validity({ notBefore: new Date(parts.from), notAfter: new Date(parts.until) }),
    subjectPublicKeyInfo:
      AsnConvert.parse(publicKey.export({ type: 'spki', format: 'der' }), asn.SubjectPublicKeyInfo),
    ...extensions === undefined ? {} : { extensions: new asn.Extensions([...extensions]) }
  })
  const signatureValue = new Uint8Array(sign(digest, encode(tbsCertificate), signer)).buffer
  const whole = new asn.Certificate({ tbsCertificate, signatureAlgorithm: signature, signatureValue })
  return new X509Certificate(encode(whole)).toString()
}

/** `critical`: clients that do not support the extension must refuse the certificate. */
const extension = (extnID: string, critical: boolean, value: unknown): asn.Extension =>
  new asn.Extension({ extnID, critical, extnValue: new OctetString(encode(value)) })

/** A DNS name, an address, or a network such as 10.0.0.0/8. */
const generalName = (name: string): asn.GeneralName => new asn.GeneralName(
  isIP(name) === 0 && !name.includes('/') ? { dNSName: name } : { iPAddress: name })

/** Identifier of a key in certificates; any 20 unique bytes will do (RFC 5280 4.2.1.2). */
const keyId = (publicKey: KeyObject): Buffer =>
  createHash('sha256').update(publicKey.export({ type: 'spki', format: 'der' })).digest().subarray(0, 20)

/** The extensions of authorities and servers alike. */
const forServers = (key: KeyObject, names: readonly string[]): asn.Extension[] => [
  extension(asn.id_ce_extKeyUsage, false, new asn.ExtendedKeyUsage([asn.id_kp_serverAuth])),
  extension(asn.id_ce_subjectAltName, false, new asn.SubjectAlternativeName(names.map(generalName))),
  extension(asn.id_ce_subjectKeyIdentifier, false, new asn.SubjectKeyIdentifier(keyId(key)))
]

/**
 * The extension that limits an authority to these DNS names, which include their subdomains, addresses and
 * networks (RFC 5280 4.2.1.10).
 */
function constraints (names: readonly string[], networks: readonly string[]): asn.Extension {
  const ranges = names.map((name) => isIP(name) === 0 ? name : `${name}/${isIP(name) === 4 ? 32 : 128}`)
  const permittedSubtrees = new asn.GeneralSubtrees([...ranges, ...networks]
    .map((one) => new asn.GeneralSubtree({ base: generalName(one) })))
  return extension(asn.id_ce_nameConstraints, true, new asn.NameConstraints({ permittedSubtrees }))
}

/** Whether an authority is limited to just these names and networks. */
export const hasConstraints = (
  { raw }: X509Certificate, names: readonly string[], networks: readonly string[]
): boolean => raw.includes(encode(constraints(names, networks)))

/**
 * Extensions of an authority for servers with these names, addresses and networks; it may not sign other
 * authorities. The names are also its own subject names, since Node's API shows no name constraints.
 */
export function authorityExtensions (
  key: KeyObject, names: readonly string[], networks: readonly string[]
): asn.Extension[] {
  const authority = new asn.BasicConstraints({ cA: true, pathLenConstraint: 0 })
  return [
    extension(asn.id_ce_basicConstraints, true, authority),
    extension(asn.id_ce_keyUsage, true, new asn.KeyUsage(asn.KeyUsageFlags.keyCertSign)),
    ...forServers(key, names),
    constraints(names, networks)
  ]
}

/** Extensions of a server's certificate for these names and addresses. */
export function serverExtensions (
  key: KeyObject, issuer: KeyObject, names: readonly string[]
): asn.Extension[] {
  const keyIdentifier = new asn.KeyIdentifier(keyId(createPublicKey(issuer)))
  return [
    extension(asn.id_ce_basicConstraints, true, new asn.BasicConstraints()),
    extension(asn.id_ce_keyUsage, true, new asn.KeyUsage(asn.KeyUsageFlags.digitalSignature)),
    ...forServers(key, names),
    extension(asn.id_ce_authorityKeyIdentifier, false, new asn.AuthorityKeyIdentifier({ keyIdentifier }))
  ]
}
