import { Socket } from 'node:net'
import { isLoopback } from '../../net/addresses.js'
import type { TLSSocket } from 'node:tls'

/** True for a bearer token, which anyone who reads it can use, unlike a device's signature. */
export const isToken = (authorization: string | undefined): boolean => /^Bearer /i.test(authorization ?? '')

/** Whether others could read a request because it came from another machine without TLS. */
export function isUnencrypted (socket: object): boolean {
  if (!(socket instanceof Socket) || (socket as Partial<TLSSocket>).encrypted === true) return false
  const { remoteAddress, localAddress } = socket
  return remoteAddress !== undefined && remoteAddress !== localAddress && !isLoopback(remoteAddress)
}
