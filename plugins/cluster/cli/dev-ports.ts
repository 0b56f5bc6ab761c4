import { createServer, type AddressInfo, type Server } from 'node:net'
import { holderOf, type VerbContext } from '../../../kernel/cli/index.js'

export interface Ports { api: number, cluster: number }

const HOST = '127.0.0.1'

/** Two ports per node, from `base` on or any free ones if it is 0. Throws VerbError (1) for a used port. */
export async function devPorts (
  { fail }: Pick<VerbContext, 'fail'>, count: number, base: number
): Promise<Ports[]> {
  const wanted = Array.from({ length: 2 * count }, (_, i) => base === 0 ? 0 : base + i)
  const servers: Server[] = []
  try {
    // Keep all ports open until the end, so that no free port is returned twice.
    for (const port of wanted) servers.push(await open(port, fail))
    const ports = servers.map((server) => (server.address() as AddressInfo).port)
    return Array.from({ length: count }, (_, i) => ({ api: ports[2 * i]!, cluster: ports[2 * i + 1]! }))
  } finally {
    await Promise.all(servers.map((server) => new Promise((resolve) => { server.close(resolve) })))
  }
}

function open (port: number, fail: VerbContext['fail']): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', (error: NodeJS.ErrnoException) => {
      reject(fail(1, explain(port, error.code ?? error.message)))
    })
    server.listen({ host: HOST, port }, () => { resolve(server) })
  })
}

function explain (port: number, code: string): string {
  if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT') {
    return `this machine has no ${HOST} (${code}), which svc dev needs: ` +
      'add it (ip addr add 127.0.0.1/8 dev lo), or run one node with `svc up --host ::1`'
  }
  if (code !== 'EADDRINUSE') {
    return `cannot listen on ${HOST}:${port}: ${code}; choose other ports with --base-port`
  }
  return `port ${port} is in use by ${holderOf(port)}; stop it, or choose other ports with --base-port ` +
    '(0: any free ones). Nothing was started'
}
