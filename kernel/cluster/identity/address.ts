import { isIPv6 } from 'node:net'
import { isLoopback } from '../../http/access.js'

const ADDRESS = /^(?:\[([^\s[\]]{2,80})\]|([A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})?)):([0-9]{1,5})$/

/** Reads host:port, IPv6 in []. Undefined when it is not one or the port is not 1 to 65535. */
export function readAddress (text: string): { host: string, port: number } | undefined {
  const match = ADDRESS.exec(text)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (host === undefined || port < 1 || port > 65_535) return undefined
  if (match?.[1] !== undefined && !isIPv6(host)) return undefined
  return { host, port }
}

/** True for a host that only this machine reaches: loopback in every spelling. */
export function isLoopbackHost (host: string): boolean {
  return host === 'localhost' || isLoopback(host)
}

/** True when a host:port may be that of another machine. */
export function isOutside (address: string): boolean {
  const host = readAddress(address)?.host
  return host !== undefined && !isLoopbackHost(host)
}

/** host:port, with [] around IPv6. */
export function formatAddress (host: string, port: number): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`
}
