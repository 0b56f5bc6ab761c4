import { BlockList, createServer, isIPv6, type AddressInfo, type Socket } from 'node:net'
import { isLoopback, openResponder, type Clock, type NodeInfo } from '../../kernel/index.js'
import { serveConnection, type WyomingParts } from './connection.js'

const CONNECTIONS = 16

/** `port`: null while it is not open, and `reason` says why if it cannot be. */
export interface PortView { port: number | null, allow: readonly string[], reason: string | null }

export interface PortOptions {
  /** 0: any free port. */
  port: number
  /** Addresses and networks that may connect, besides this machine. */
  allow: readonly string[]
  /** Announced on the network. */
  node: Pick<NodeInfo, 'name' | 'installId'>
  clock: Pick<Clock, 'mono'>
  opened: (detail: { port: number, allow: readonly string[] }) => Promise<void>
}

/** Opens the port: on loopback, or on all addresses if others may connect. */
export function openPort (
  parts: WyomingParts, { port, allow, node, clock, opened }: PortOptions
): { view: () => PortView, close: () => Promise<void> } {
  const { log } = parts
  const sockets = new Set<Socket>()
  const listed = listOf(allow)
  let reason: string | null = null
  const ends: (() => void)[] = []
  let [refused, warnedAt] = [0, -Infinity]
  // Half open: a client may end its side after its request, and still waits for the answer.
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const address = (socket.remoteAddress ?? '').replace(/^::ffff:/, '')
    if (isLoopback(address) || listed.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')) {
      sockets.add(socket.once('close', () => { sockets.delete(socket) }))
      void serveConnection(socket, parts)
    } else {
      socket.destroy()
      refused += 1
      if (clock.mono() - warnedAt < 60_000) return
      log.warn({ address, refused }, 'a Wyoming peer is not listed in wyoming.allow')
      refused = 0
      warnedAt = clock.mono()
    }
  })
  server.maxConnections = CONNECTIONS
  const portOf = (): number | null => (server.address() as AddressInfo | null)?.port ?? null
  server.on('error', (error) => {
    reason = error.message
    log.error({ err: error }, 'the Wyoming port cannot be opened')
  })
  server.listen(port, allow.length === 0 ? '127.0.0.1' : undefined, () => {
    const open = portOf()!
    opened({ port: open, allow }).catch((err: unknown) => { log.warn({ err }, 'the audit failed') })
    if (allow.length === 0) return
    // Home Assistant finds `_wyoming._tcp` by mDNS.
    openResponder(() => {}).then(({ responder, close }) => {
      ends.push(close)
      const [name, host] = [`svc ${node.name}`, `${node.installId}.local`]
      responder.publish({ name, host, type: 'wyoming', port: open, probe: false })
    }).catch(() => {})
  })
  return {
    view: () => ({ port: portOf(), allow, reason }),
    async close () {
      for (const end of ends) end()
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => { server.close(() => { resolve() }) })
    }
  }
}

function listOf (allow: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of allow) {
    const [address = '', bits = isIPv6(address) ? 128 : 32] = entry.split('/')
    list.addSubnet(address, Number(bits), isIPv6(address) ? 'ipv6' : 'ipv4')
  }
  return list
}
