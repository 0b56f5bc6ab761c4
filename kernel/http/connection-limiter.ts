import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { orElse } from '../api/schema.js'

interface Unproven { socket: Socket, network: string, leave: () => void }

export interface ConnectionLimits {
  inAll: number
  /** Maximum number of unauthenticated connections per network. */
  perNetwork: number
  /** Returns true for addresses to which `perNetwork` does not apply. */
  free?: (address: string) => boolean
}

/** Number of files this process may open; Infinity if the system does not say. */
function filesAllowed (): number {
  const limits = orElse('', () => readFileSync('/proc/self/limits', 'utf8'))
  return Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity)
}

/** Maximum connections per listener: two listeners (API, members) may use half of the open-file limit. */
const MOST_OPEN = Math.floor(filesAllowed() / 4)

/**
 * Limits a listener's connections. A connection is unproven until `authenticated` reports a credential or a
 * member's key on it. Over a limit, the limiter closes the oldest unproven connection, so that clients that
 * authenticate immediately get in.
 */
export class ConnectionLimiter {
  readonly #limits: ConnectionLimits
  /** Unproven connections by address and port, oldest first. */
  readonly #unproven = new Map<string, Unproven>()
  /** Number of unproven connections by network, kept because every anonymous request reads it. */
  readonly #held = new Map<string, number>()
  #open = 0

  constructor (limits: ConnectionLimits) { this.#limits = limits }

  /** Counts a connection; over a limit, closes the oldest unproven one, which may be this one. */
  accept (socket: Socket): void {
    const { inAll, perNetwork, free } = this.#limits
    const [key, network] = [keyOf(socket), networkOf(socket.remoteAddress ?? '')]
    let inside = true
    const leave = (): void => {
      if (!inside) return
      inside = false
      this.#open--
      if (this.#unproven.get(key)?.socket === socket) this.#forget(key)
    }
    this.#open++
    this.#forget(key)
    this.#unproven.set(key, { socket, network, leave })
    this.#held.set(network, (this.#held.get(network) ?? 0) + 1)
    socket.once('close', leave)
    if (free?.(socket.remoteAddress ?? '') !== true && this.held(socket) > perNetwork) this.#close(network)
    else if (this.#open > Math.min(inAll, MOST_OPEN)) this.#close()
  }

  /** Marks a connection as authenticated, by address and port since TLS wraps the socket. */
  authenticated (socket: Socket): void {
    if (this.#unproven.size > 0) this.#forget(keyOf(socket))
  }

  held (socket: Socket): number { return this.#held.get(networkOf(socket.remoteAddress ?? '')) ?? 0 }

  closeUnauthenticated (): void {
    while (this.#unproven.size > 0) this.#close()
  }

  #forget (key: string): void {
    const unproven = this.#unproven.get(key)
    if (unproven === undefined) return
    this.#unproven.delete(key)
    const left = this.#held.get(unproven.network)! - 1
    if (left > 0) this.#held.set(unproven.network, left)
    else this.#held.delete(unproven.network)
  }

  #close (network?: string): void {
    for (const unproven of this.#unproven.values()) {
      if (network !== undefined && unproven.network !== network) continue
      unproven.leave()
      unproven.socket.destroy()
      return
    }
  }
}

const keyOf = (socket: Socket): string => `${socket.remoteAddress ?? ''} ${socket.remotePort ?? 0}`

/** The IPv4 address or the IPv6 /64 network, in which one host can use any number of addresses. */
export function networkOf (address: string): string {
  if (!address.includes(':') || address.includes('.')) return address
  const [head = '', tail] = address.split('%')[0]!.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : 8 - left.length - right.length
  return [...left, ...Array<string>(Math.max(0, zeros)).fill('0'), ...right].slice(0, 4).join(':')
}
