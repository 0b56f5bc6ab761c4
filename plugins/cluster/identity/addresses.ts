import { isIPv6 } from 'node:net'
import os from 'node:os'
import { isLoopback } from '../../../kernel/cluster.js'

export const MAX_ADDRESSES = 16

const ADDRESS = /^(?:\[([^\s[\]]{2,80})\]|([A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})?)):([0-9]{1,5})$/

/** Parses host:port, with IPv6 in brackets. Undefined for other text, or a port outside 1 to 65535. */
export function readAddress (text: string): { host: string, port: number } | undefined {
  const match = ADDRESS.exec(text)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (host === undefined || port < 1 || port > 65_535) return undefined
  if (match?.[1] !== undefined && !isIPv6(host)) return undefined
  return { host, port }
}

/** True for a host that only this machine reaches: loopback in every spelling. */
export function isLoopbackHost (host: string): boolean { return host === 'localhost' || isLoopback(host) }

export function isRemote (address: string): boolean {
  const host = readAddress(address)?.host
  return host !== undefined && !isLoopbackHost(host)
}

export function formatAddress (host: string, port: number): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`
}

export const ANY_IPV4 = '0.0.0.0'

/** Bind address of the members' listener; port 0 before it is bound. */
export interface BindAddress { host: string, port: number }

/** Addresses of the members' listener: the advertised one, or all that it is bound to. */
export function addressesOf ({ host, port }: BindAddress, advertised: string | undefined): string[] {
  if (advertised !== undefined) return [advertised]
  if (port === 0) return []
  if (host !== ANY_IPV4 && host !== '::') return [formatAddress(host, port)]
  const all = Object.values(os.networkInterfaces()).flatMap((list) => list ?? [])
    .filter((i) => !i.internal && !i.address.startsWith('fe80:') && (host === '::' || i.family === 'IPv4'))
  const found = all.slice(0, MAX_ADDRESSES).map((i) => formatAddress(i.address, port))
  return found.length > 0 ? found : [formatAddress(host === '::' ? '::1' : '127.0.0.1', port)]
}

/** True if the listener is bound to loopback and svc.yaml does not configure that. */
export function mayOpen (bound: BindAddress, configured: string | undefined): boolean {
  return configured === undefined && isLoopbackHost(bound.host)
}
