import os from 'node:os'
import { formatAddress, isLoopbackHost, isOutside, readAddress, readJoinToken } from './identity/index.js'
import { MAX_ADDRESSES } from './identity/shapes.js'
import type { JoinTokens, Members } from './identity/index.js'

/** Every IPv4 address of the machine. */
export const EVERYWHERE = '0.0.0.0'

/** Where the members' listener is bound; port 0 before it is. */
export interface Bound { host: string, port: number }

/** Where others reach the members' listener: what was configured, or every address it is bound to. */
export function addressesOf ({ host, port }: Bound, advertised: string | undefined): string[] {
  if (advertised !== undefined) return [advertised]
  if (port === 0) return []
  if (host !== EVERYWHERE && host !== '::') return [formatAddress(host, port)]
  const all = Object.values(os.networkInterfaces()).flatMap((list) => list ?? [])
    .filter((i) => !i.internal && !i.address.startsWith('fe80:') && (host === '::' || i.family === 'IPv4'))
  const found = all.slice(0, MAX_ADDRESSES).map((i) => formatAddress(i.address, port))
  return found.length > 0 ? found : [formatAddress(host === '::' ? '::1' : '127.0.0.1', port)]
}

/** True while nothing but this machine reaches the listener, and svc.yaml does not want it so. */
export function mayOpen (bound: Bound, configured: string | undefined): boolean {
  return configured === undefined && isLoopbackHost(bound.host)
}

export interface Awaited {
  members: Pick<Members, 'current'>
  joinTokens: Pick<JoinTokens, 'awaitsOthers'>
  installId: string
  /** `--join`: a token, or host:port of a member. */
  join: string | undefined
}

/**
 * Whether another machine has to reach the members' listener: a member is there, an open join token invites
 * one, or this node joins one. Throws `invalid_request` for what is no join token.
 */
export function awaitsOthers ({ members, joinTokens, installId, join }: Awaited): boolean {
  const seedsOf = (text: string): readonly string[] =>
    readAddress(text) === undefined ? readJoinToken(text, 0).seeds : [text]
  const joins = join !== undefined && seedsOf(join).some(isOutside)
  return joins || joinTokens.awaitsOthers || members.current().members.some((member) =>
    member.installId !== installId && member.addresses.some(isOutside))
}
