import { createSocket } from 'node:dgram'
import type { EventEmitter } from 'node:events'
import type { Bonjour } from 'bonjour-service'
import { joinGroup, setUpMulticast } from './multicast.js'

export type Responder = Pick<Bonjour, 'publish' | 'find' | 'unpublishAll'>

/** An open mDNS responder; `broken` is called, possibly more than once, if multicast does not work. */
export interface OpenedResponder { responder: Responder, repeat (): void, close (): void }
export type OpenResponder = (broken: (error: Error) => void) => Promise<OpenedResponder>

/** Passes an error of `fn` to `broken`. */
export function guarded (broken: (error: unknown) => void, fn: () => void): void {
  try { fn() } catch (error) { broken(error) }
}

/** mDNS over IPv4 multicast. The library is imported only if discovery is on. */
export async function openResponder (broken: (error: Error) => void): Promise<OpenedResponder> {
  const { Bonjour } = await import('bonjour-service')
  const socket = createSocket({ type: 'udp4', reuseAddr: true })
  socket.unref()
  const joined = new Set<string>()
  const failed = (error: unknown): void => { broken(error as Error) }
  socket.on('listening', () => { guarded(failed, () => { setUpMulticast(socket, joined) }) })
  // With `multicast`, the library's timers would keep the process alive and throw outside any handler.
  const settings = { socket, multicast: false } as ConstructorParameters<typeof Bonjour>[0]
  const bonjour = new Bonjour(settings, broken)
  const { mdns } = (bonjour as unknown as { server: { mdns: EventEmitter } }).server
  mdns.on('error', broken)
  mdns.on('warning', () => {})
  return {
    responder: bonjour, repeat: () => { joinGroup(socket, joined) },
    close: () => { guarded(() => {}, () => { bonjour.destroy() }) }
  }
}
