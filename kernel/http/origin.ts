import { isIP } from 'node:net'

export interface ServedNames {
  /** Addresses the listener is bound to; for a wildcard bind every local address. */
  addresses: ReadonlySet<string>
  port: number
  secure: boolean
  /** `api.allowed_hosts`: further names, with or without a port. */
  allowedHosts: readonly string[]
  /** `api.allowed_origins`: origins of web pages that may call, e.g. `https://ops.example`. */
  allowedOrigins: readonly string[]
}

/** Splits a Host header; null if it is malformed. IPv6 literals are returned without brackets. */
export function parseHost (header: string): { name: string, port: number | null } | null {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]/?#@\s]+))(?::(\d{1,5}))?$/.exec(header)
  if (match === null) return null
  const name = (match[1] ?? match[2]!).toLowerCase()
  return { name, port: match[3] === undefined ? null : Number(match[3]) }
}

/**
 * True for a Host header of this node: an IP literal that it listens on, `localhost` on a loopback address,
 * or a configured name. Keeps web pages that rebind their DNS name out.
 */
export function hostAllowed (header: string | undefined, served: ServedNames): boolean {
  if (header === undefined) return false
  if (served.allowedHosts.includes(header.toLowerCase())) return true
  const host = parseHost(header)
  if (host === null) return false
  if (served.allowedHosts.includes(host.name)) return true
  if (host.port !== null && host.port !== served.port) return false
  if (host.name === 'localhost') return served.addresses.has('127.0.0.1') || served.addresses.has('::1')
  return isIP(host.name) !== 0 && served.addresses.has(host.name)
}

/** The browser's headers about the origin of a request. */
export interface BrowserHints {
  origin?: string | undefined
  site?: string | undefined
  mode?: string | undefined
}

/**
 * True for requests from a web page that is neither ours nor listed. Browsers send Origin with WebSockets and
 * cross-site requests, else Sec-Fetch-Site. Following a link is fine.
 */
export function foreignPage (hints: BrowserHints, method: string, served: ServedNames): boolean {
  if (hints.origin !== undefined) {
    if (served.allowedOrigins.includes(hints.origin)) return false
    return !sameOrigin(hints.origin, served)
  }
  if (hints.site === 'cross-site' || hints.site === 'same-site') {
    return !(method === 'GET' && hints.mode === 'navigate')
  }
  return false
}

function sameOrigin (origin: string, served: ServedNames): boolean {
  if (!URL.canParse(origin)) return false
  const url = new URL(origin)
  const [scheme, usual] = served.secure ? ['https:', 443] : ['http:', 80]
  return url.protocol === scheme && hostAllowed(url.host, served) &&
    Number(url.port === '' ? usual : url.port) === served.port
}
