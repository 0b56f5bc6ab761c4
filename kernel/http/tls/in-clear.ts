import { Socket } from 'node:net'
import { isLoopback } from '../access.js'
import type { TLSSocket } from 'node:tls'

/**
 * Whether a token could be read on its way here: it came from another machine, and without TLS. What a device
 * signs is no secret.
 */
export function tokenInClear (authorization: string | undefined, socket: object): boolean {
  if (authorization === undefined || !/^Bearer /i.test(authorization)) return false
  if (!(socket instanceof Socket) || (socket as Partial<TLSSocket>).encrypted === true) return false
  const { remoteAddress, localAddress } = socket
  // From this machine to an address of its own it takes no cable.
  return remoteAddress !== undefined && remoteAddress !== localAddress && !isLoopback(remoteAddress)
}
