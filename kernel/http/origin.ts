import { isIP } from 'node:net'

export interface ServedNames {
  /** Addresses at which the listener is bound; for a wildcard bind, every local address. */
  addresses: ReadonlySet<string>
  port: number
  secure: boolean
  /** The `api.allowed_hosts` setting: additional host names, with or without a port. */
  allowedHosts: readonly string[]
  /** The `api.allowed_origins` setting: web pages that may call the API, e.g. `https://ops.example`. */
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
 * True if a Host header names this node: an IP literal it listens on, `localhost` on a loopback address, or a
 * configured name. Protects against DNS rebinding by web pages.
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

/** Browser headers that show where a request comes from. */
export interface BrowserHints {
  origin?: string | undefined
  site?: string | undefined
  mode?: string | undefined
}

/**
 * True for requests from a web page that is neither this node's nor allowed. Browsers send Origin with
 * WebSockets and cross-site requests, otherwise Sec-Fetch-Site. Following a link is allowed.
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
