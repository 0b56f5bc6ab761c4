import { dirname, resolve } from 'node:path'
import { BootError } from '../api/errors.js'
import { parseHost } from '../http/origin.js'
import { identityInFiles } from '../http/tls/files.js'
import { IdentityError } from '../http/tls/identity.js'
import { ownIdentity } from '../http/tls/local-authority.js'
import type { KernelConfig } from '../config/kernel-settings.js'
import type { ServedNames } from '../http/origin.js'
import type { IdentitySource, ServerIdentity } from '../http/tls/identity.js'

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
export function openApiTls (options: ApiTlsOptions): ApiTls | undefined {
  const { settings: { tls }, now } = options
  if (tls === 'off') return undefined
  const source = tls === 'files' ? inFiles(options) : ownIdentity({
    home: options.home, installId: options.installId, now, names: () => namesOf(options.served())
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
