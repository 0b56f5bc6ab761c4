import { lookup as systemLookup } from 'node:dns/promises'
import type { LookupAddress } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { Agent } from 'undici'
import { HubError } from './errors.js'
import { addressAllowed, refused } from './hosts.js'
import type { Trust } from './hosts.js'
import type { HubLimits } from './types.js'

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
