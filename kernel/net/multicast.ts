import { createSocket, type Socket } from 'node:dgram'
import { networkInterfaces } from 'node:os'
import { delay, type Clock } from '../api/clock.js'

/** DNS-SD service type (RFC 6763): `_svc._tcp.local`. */
export const SERVICE_TYPE = 'svc'
/** Multicast DNS group and port (RFC 6762). */
const GROUP = '224.0.0.251'
const PORT = 5353

/** Makes a bound socket join the mDNS group. Throws if no interface supports multicast. */
export function setUpMulticast (socket: Socket, joined: Set<string>): void {
  const problem = joinGroup(socket, joined)
  if (joined.size === 0) throw problem ?? new Error('there is no IPv4 interface')
  socket.setMulticastTTL(255)
  socket.setMulticastLoopback(true)
}

/** Joins the mDNS group on every interface that has not joined it yet; returns the last error. */
export function joinGroup (socket: Socket, joined: Set<string>): Error | undefined {
  let problem: Error | undefined
  for (const [name, list] of Object.entries(networkInterfaces())) {
    const address = list?.find(({ family }) => family === 'IPv4')?.address
    if (address === undefined || joined.has(`${name} ${address}`)) continue
    try {
      socket.addMembership(GROUP, address)
      joined.add(`${name} ${address}`)
    } catch (error) {
      problem = error as Error
    }
  }
  return problem
}

/** A DNS query for this service, like that of any DNS-SD browser. */
function question (id: number): Buffer {
  const head = Buffer.alloc(12)
  head.writeUInt16BE(id, 0)
  head.writeUInt16BE(1, 4)
  const labels = [`_${SERVICE_TYPE}`, '_tcp', 'local'].map((label) =>
    Buffer.concat([Buffer.of(label.length), Buffer.from(label)]))
  // Type PTR (12), class IN (1).
  return Buffer.concat([head, ...labels, Buffer.of(0, 0, 12, 0, 1)])
}

/** Null if this machine receives its own packet to the mDNS group; otherwise the reason why not. */
export async function multicastProblem (clock: Clock, waitMs = 1000): Promise<string | null> {
  const socket = createSocket({ type: 'udp4', reuseAddr: true })
  const probe = question(Math.floor(process.pid + clock.mono()) & 0xffff)
  const heard = new Promise<string | null>((resolve) => {
    socket.on('error', (error) => { resolve(error.message) })
    socket.on('message', (message) => { if (message.equals(probe)) resolve(null) })
    socket.bind(PORT, () => {
      try { setUpMulticast(socket, new Set()) } catch (error) { resolve((error as Error).message) }
      socket.send(probe, PORT, GROUP, (error) => { if (error !== null) resolve(error.message) })
    })
  })
  const late = delay(clock, waitMs).then(() => `no packet came back within ${waitMs} ms`)
  try { return await Promise.race([heard, late]) } finally { socket.close() }
}
