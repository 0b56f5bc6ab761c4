import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { HubError } from './types.js'

/** How far a host is trusted: `named` hosts may have private addresses, `public` ones may not. */
export type Trust = 'named' | 'public'

/** Which URLs the client may ask. */
export class HostRules {
  readonly #origin: string
  readonly #named: readonly string[]

  /** `base` is the hub's own URL; `redirectHosts` as in HubClientOptions. */
  constructor (base: URL, redirectHosts: readonly string[]) {
    this.#origin = base.origin
    this.#named = redirectHosts.map((host) => host.toLowerCase())
  }

  /** Whether this is the hub itself, the only one that gets the token. */
  isHub (url: URL): boolean { return url.origin === this.#origin }

  /**
   * How far the host of a URL is trusted. Throws HubError `refused_redirect` for a URL that may not be
   * asked at all. Names are judged again by their addresses when the connection is made.
   */
  trust (url: URL): Trust {
    if (url.protocol !== 'https:' && url.protocol !== 'http:') {
      throw refused(url, 'only http and https are asked')
    }
    if (url.username !== '' || url.password !== '') throw refused(url, 'it carries credentials')
    const names = [url.host, `${url.hostname}:${portOf(url)}`]
    const named = this.isHub(url) || names.some((name) => this.#named.includes(name))
    const known = named || this.#named.some((entry) => matchesPattern(entry, url))
    if (url.protocol === 'http:' && !known) throw refused(url, 'it is not https')
    const trust = named ? 'named' : 'public'
    const host = url.hostname.replace(/^\[|\]$/g, '')
    if (isIP(host) !== 0 && !addressAllowed(host, trust)) {
      throw refused(url, 'the address is not a public one')
    }
    return trust
  }
}

function portOf (url: URL): string {
  if (url.port !== '') return url.port
  return url.protocol === 'https:' ? '443' : '80'
}

/** `*.example.org` or `*.example.org:8443`: any host below it, at the standard port or the named one. */
function matchesPattern (entry: string, url: URL): boolean {
  const match = /^\*(\.[^:]+)(?::(\d+))?$/.exec(entry)
  if (match === null) return false
  const [, suffix, port] = match
  return url.hostname.endsWith(suffix!) && (port === undefined ? url.port === '' : port === portOf(url))
}

/** The refusal of a host that a redirect or a name leads to. */
export function refused (url: { host: string }, why: string): HubError {
  return new HubError('refused_redirect', `the hub leads to ${url.host}, which is refused: ${why}. If you ` +
    `trust it, add "${url.host}" to model_store.hub.redirect_hosts in svc.yaml`)
}

/** Whether an address literal is on the public internet. False for what is no address. */
export function isPublicAddress (address: string): boolean {
  if (rangeOf(address) !== 'unicast') return false
  // Only 2000::/3 of IPv6 is assigned: `unicast` alone would let `::127.0.0.1` pass.
  return isIP(address) === 4 || ipaddr.parse(address).match(ipaddr.parse('2000::'), 3)
}

/**
 * Whether an address may be used even though the operator named the host: anything but link-local (clouds
 * answer with credentials there, and EC2 at fd00:ec2:: too), "this host", and IPv4 inside of IPv6.
 */
export function isUsableAddress (address: string): boolean {
  const range = rangeOf(address)
  if (range === null || ['linkLocal', 'unspecified', 'ipv4Mapped'].includes(range)) return false
  return isIP(address) === 4 || !ipaddr.parse(address).match(ipaddr.parse('fd00:ec2::'), 32)
}

/** The range of the IANA registries that an address is in; null for what is no address. */
function rangeOf (address: string): string | null {
  return isIP(address) === 0 ? null : ipaddr.parse(address).range()
}

/** Whether an address may be connected to for a host of that trust. */
export const addressAllowed = (address: string, trust: Trust): boolean =>
  trust === 'named' ? isUsableAddress(address) : isPublicAddress(address)
