import { lookup as systemLookup } from 'node:dns/promises'
import type { LookupAddress } from 'node:dns'
import { isIP } from 'node:net'
import type { LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'
import { Agent } from 'undici'
import { HubError } from './types.js'
import type { HubLimits } from './types.js'

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

function refused (url: { host: string }, why: string): HubError {
  return new HubError('refused_redirect', `the hub leads to ${url.host}, which is refused: ${why}. If you ` +
    `trust it, add "${url.host}" to model_store.hub.redirect_hosts in svc.yaml`)
}

/** Whether an address literal is on the public internet. False for what is no address. */
export function isPublicAddress (address: string): boolean {
  if (rangeOf(address) !== 'unicast') return false
  // Of IPv6 only 2000::/3 has been given out: `unicast` alone would let `::127.0.0.1` pass.
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

const addressAllowed = (address: string, trust: Trust): boolean =>
  trust === 'named' ? isUsableAddress(address) : isPublicAddress(address)

/** Resolves a host name to all its addresses. */
export type Lookup = (hostname: string) => Promise<LookupAddress[]>

/** Asks the system's resolver. */
export const lookupAll: Lookup = (hostname) => systemLookup(hostname, { all: true, verbatim: true })

/**
 * Connections by how far a host is trusted. The check of the addresses is the lookup of the connection
 * itself, so a name cannot resolve to one address for the check and to another for the connection.
 */
export function createAgents (limits: HubLimits, lookup: Lookup): Record<Trust, Agent> {
  const agent = (trust: Trust): Agent => new Agent({
    connect: { timeout: limits.connectMs, lookup: checkedLookup(trust, lookup) },
    headersTimeout: limits.headersMs,
    bodyTimeout: limits.idleMs
  })
  return { named: agent('named'), public: agent('public') }
}

function checkedLookup (trust: Trust, lookup: Lookup): LookupFunction {
  return (hostname, options, callback) => {
    const fail = (error: unknown): void => { callback(error as NodeJS.ErrnoException, []) }
    lookup(hostname).then((addresses) => {
      const bad = addresses.find(({ address }) => !addressAllowed(address, trust))
      if (bad !== undefined) {
        fail(refused({ host: hostname }, `it resolves to ${bad.address}, which is not a public address`))
        return
      }
      const first = addresses[0]
      if (first === undefined) { fail(new HubError('unavailable', `${hostname} has no address`)); return }
      if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    }).catch(fail)
  }
}
