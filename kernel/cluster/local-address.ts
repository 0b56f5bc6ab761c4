import { createSocket } from 'node:dgram'
import { lookup } from 'node:dns/promises'

/** Any port will do: nothing is sent. */
const PORT = 9

/**
 * The address of this machine from which `host` is reached, as the routing table says; undefined when it is
 * not reached at all. Nothing is sent.
 */
export async function localAddressTo (host: string): Promise<string | undefined> {
  try {
    const { address, family } = await lookup(host)
    const socket = createSocket(family === 6 ? 'udp6' : 'udp4')
    try {
      await new Promise<void>((resolve, reject) => {
        socket.once('error', reject)
        socket.connect(PORT, address, resolve)
      })
      return socket.address().address
    } finally {
      socket.close()
    }
  } catch {
    return undefined
  }
}
