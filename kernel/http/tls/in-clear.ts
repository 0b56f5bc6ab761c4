import { Socket } from 'node:net'
import { isLoopback } from '../access.js'
import type { TLSSocket } from 'node:tls'

/** Whether what comes over a connection could be read on the way: from another machine, and without TLS. */
export function comesInClear (socket: object): socket is Socket {
  if (!(socket instanceof Socket) || (socket as Partial<TLSSocket>).encrypted === true) return false
  const { remoteAddress, localAddress } = socket
  // From this machine to an address of its own it takes no cable.
  return remoteAddress !== undefined && remoteAddress !== localAddress && !isLoopback(remoteAddress)
}
