import { hostProblem } from '../../../kernel/index.js'
import { HubError } from './types.js'
import type { Trust } from '../../../kernel/index.js'

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
    const problem = hostProblem(url.hostname, trust)
    if (problem !== null) throw refused(url, problem)
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

export function refused (url: { host: string }, why: string): HubError {
  return new HubError('refused_redirect', `the hub leads to ${url.host}, which is refused: ${why}. If you ` +
    `trust it, add "${url.host}" to model_store.hub.redirect_hosts in svc.yaml`)
}
