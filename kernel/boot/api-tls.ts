import { dirname, resolve, join } from 'node:path'
import {
  createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, X509Certificate, type KeyObject
} from 'node:crypto'
import { isIP } from 'node:net'
import { BootError } from '../api/errors.js'
import { parseHost, type ServedNames } from '../http/origin.js'
import { identityInFiles } from '../http/tls/files.js'
import {
  IdentityError, identityFrom, type IdentitySource, type ServerIdentity
} from '../http/tls/identity.js'
import ipaddr from 'ipaddr.js'
import { readText, writeWhole } from './home.js'
import type { KernelConfig } from '../config/kernel-settings.js'

/** The TLS state of the API; `current` is the certificate in use. */
export interface ApiTls { readonly source: IdentitySource, current: ServerIdentity }

export interface ApiTlsOptions {
  settings: KernelConfig['api']
  home: string
  installId: string
  /** Path of svc.yaml, whose folder is the base for relative paths; null to use the home instead. */
  file: string | null
  served: () => ServedNames
  now: () => number
}

/** TLS identity of the API as set in `api.tls`; undefined if TLS is off. Throws BootError naming the file. */
export async function openApiTls (options: ApiTlsOptions): Promise<ApiTls | undefined> {
  const { settings: { tls }, now } = options
  if (tls === 'off') return undefined
  const source = tls === 'files' ? inFiles(options) : ownIdentity({
    home: options.home, installId: options.installId, now, names: () => namesOf(options.served()),
    x509: await import('../http/tls/x509.js')
  })
  try {
    return { source, current: source.next()! }
  } catch (error) {
    if (!(error instanceof IdentityError)) throw error
    const next = tls === 'files' ? '; then start again, or run `svc config set api.tls self`' : ''
    throw new BootError([`api.tls: ${error.message}${next}`])
  }
}

function inFiles ({ settings, home, file, now }: ApiTlsOptions): IdentitySource {
  const folder = file === null ? home : dirname(file)
  // The settings' validation guarantees that both paths are set.
  const [cert, key] = [settings.tls_cert!, settings.tls_key!].map((path) => resolve(folder, path))
  return identityInFiles({ cert: cert!, key: key! }, now)
}

/** Names and addresses for the certificate that the node issues itself. */
export function namesOf ({ addresses, allowedHosts }: ServedNames): string[] {
  const names = allowedHosts.flatMap((host) => parseHost(host)?.name ?? [])
  // A link-local address is useless without an interface name.
  const usable = [...addresses].filter((address) => !/^fe[89ab]/i.test(address))
  return [...new Set(['localhost', '127.0.0.1', '::1', ...usable, ...names])]
}

/**
 * The first host in `api.allowed_hosts` that the certificate covers, since certificates from public CAs
 * rarely include IP addresses. Undefined if clients should use the address.
 */
export function advertisedName ({ current }: ApiTls, { allowedHosts }: ServedNames): string | undefined {
  return allowedHosts.find((host) => {
    const name = parseHost(host)?.name
    return name !== undefined && current.covers(name)
  })
}

/** File names in the home directory. */
export const ownFile = { key: 'api-tls.key', authority: 'api-ca.crt' } as const

const DAY_MS = 24 * 60 * 60 * 1000
/** Lifetime of a certificate in days; Apple's clients accept at most 825, public authorities use 398. */
const DAYS = 397
/** Milliseconds before its expiry at which a certificate is renewed. */
const RENEW_MS = 30 * DAY_MS
/** Private names and networks that the authority may sign for, in addition to this node's own names. */
const PRIVATE_NAMES = ['localhost', 'local', 'lan', 'home.arpa', 'internal']
const PRIVATE_NETWORKS = [
  '127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '169.254.0.0/16', '100.64.0.0/10',
  '::1/128', 'fc00::/7', 'fe80::/10'
]

interface OwnOptions {
  home: string
  installId: string
  /** Returns the names and addresses under which clients reach the node. */
  names: () => readonly string[]
  now: () => number
  /** Imported only for `api.tls: self`. */
  x509: typeof import('../http/tls/x509.js')
}

interface Authority { key: KeyObject, keyPem: string, pem: string, names: readonly string[] }

export function ownIdentity (options: OwnOptions): IdentitySource {
  const path = join(options.home, ownFile.authority)
  let shown: { identity: ServerIdentity, names: readonly string[] } | undefined
  return {
    authority: path,
    next () {
      const names = [...new Set(options.names().map((name) =>
        isIP(name) === 0 ? name.toLowerCase() : ipaddr.parse(name).toString()))].sort()
      const now = options.now()
      const left = (shown?.identity.until ?? 0) - now
      // If more than a full lifetime is left, the clock was ahead and the certificate is not valid yet.
      const fits = shown !== undefined && left > RENEW_MS && left <= DAYS * DAY_MS &&
        names.every((name) => shown!.names.includes(name))
      if (fits) return null
      const authority = openAuthority(options, path, names)
      const cert = certify(authority, options, names, now) + authority.pem
      const files = { cert: path, key: join(options.home, ownFile.key) }
      shown = { names, identity: identityFrom({ cert, key: authority.keyPem }, files, now) }
      return shown.identity
    }
  }
}

function certify (
  { key, keyPem }: Authority, { installId, x509 }: OwnOptions, names: readonly string[], now: number
): string {
  const publicKey = createPublicKey(keyPem)
  return x509.makeCertificate({
    subject: `svc ${installId}`, issuer: authorityName(installId),
    publicKey, signer: key, serial: newSerial(),
    from: now - DAY_MS, until: now + (DAYS - 1) * DAY_MS,
    extensions: x509.serverExtensions(publicKey, key, names)
  })
}

/** Opens the key and its authority; creates them if missing or if the authority may not sign for a name. */
function openAuthority (options: OwnOptions, path: string, names: readonly string[]): Authority {
  const { home, installId, x509 } = options
  const keyPath = join(home, ownFile.key)
  const keyPem = readText(keyPath, 'secret') ?? makeKey(keyPath)
  const key = keyFrom(keyPem, keyPath)
  const kept = readAuthority(path, key, x509)
  const suffices = kept !== undefined && names.every((name) => isWithin(name, kept.names))
  if (suffices) return { key, keyPem, ...kept }
  const all = [...new Set([...PRIVATE_NAMES, ...names.filter((name) => !isWithin(name, PRIVATE_NAMES))])]
  const publicKey = createPublicKey(key)
  const pem = x509.makeCertificate({
    subject: authorityName(installId), issuer: authorityName(installId), publicKey, signer: key,
    serial: newSerial(), from: Date.UTC(2020, 0, 1), until: Date.UTC(2049, 11, 31),
    extensions: x509.authorityExtensions(publicKey, all, PRIVATE_NETWORKS)
  })
  writeWhole(path, pem, 0o644)
  return { key, keyPem, pem, names: all }
}

const authorityName = (installId: string): string => `svc node ${installId}`

/** Whether an authority may sign for a name: the name itself or one of its parent domains is permitted. */
function isWithin (name: string, permitted: readonly string[]): boolean {
  if (isIP(name) === 0) return permitted.some((one) => name === one || name.endsWith(`.${one}`))
  const address = ipaddr.parse(name)
  return permitted.includes(address.toString()) || PRIVATE_NETWORKS.some((network) => {
    const range = ipaddr.parseCIDR(network)
    return range[0].kind() === address.kind() && address.match(range)
  })
}

function makeKey (path: string): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  writeWhole(path, pem)
  return pem
}

function keyFrom (pem: string, path: string): KeyObject {
  let key: KeyObject | undefined
  try { key = createPrivateKey(pem) } catch { /* Refused below. */ }
  if (key?.asymmetricKeyDetails?.namedCurve === 'prime256v1') return key
  throw new IdentityError(`${path} contains no P-256 key in PEM; restore it from a backup, or run: ` +
    `rm ${path} (svc then creates a new one, which clients have to trust again)`)
}

/** The stored authority; undefined if it is missing, invalid, for another key, or has other constraints. */
function readAuthority (
  path: string, key: KeyObject, { hasConstraints }: OwnOptions['x509']
): { pem: string, names: string[] } | undefined {
  const pem = readText(path, 'public')
  if (pem === undefined) return undefined
  try {
    const certificate = new X509Certificate(pem)
    const names = (certificate.subjectAltName ?? '').split(', ').map((one) =>
      one.startsWith('DNS:') ? one.slice(4) : ipaddr.parse(one.replace('IP Address:', '')).toString())
    const isOurs = hasConstraints(certificate, names, PRIVATE_NETWORKS) && certificate.checkPrivateKey(key)
    return isOurs ? { pem, names } : undefined
  } catch {
    return undefined
  }
}

/** A random serial number that is positive and has no leading zero byte. */
function newSerial (): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(randomBytes(16))
  bytes[0] = (bytes[0]! & 0x3f) | 0x40
  return bytes
}
