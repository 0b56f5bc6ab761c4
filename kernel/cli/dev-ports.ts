import { createServer } from 'node:net'
import type { AddressInfo, Server } from 'node:net'
import { CliError, exitCodes } from './errors.js'
import { portHolder } from './port-holder.js'

/** The two ports of a node: its API and its members' listener. */
export interface Ports { api: number, cluster: number }

const HOST = '127.0.0.1'

/**
 * The ports of `count` nodes: base + 2i and base + 2i + 1, or any free ones for 0. Throws CliError (1) naming
 * the first port in use and its holder; nothing stays open.
 */
export async function devPorts (count: number, base: number): Promise<Ports[]> {
  const wanted = Array.from({ length: 2 * count }, (_, i) => base === 0 ? 0 : base + i)
  const servers: Server[] = []
  try {
    // All at once, so that no two of the free ones are the same.
    for (const port of wanted) servers.push(await open(port))
    const ports = servers.map((server) => (server.address() as AddressInfo).port)
    return Array.from({ length: count }, (_, i) => ({ api: ports[2 * i]!, cluster: ports[2 * i + 1]! }))
  } finally {
    await Promise.all(servers.map((server) => new Promise((resolve) => { server.close(resolve) })))
  }
}

function open (port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', (error: NodeJS.ErrnoException) => {
      reject(cannot(port, error.code ?? error.message))
    })
    server.listen({ host: HOST, port }, () => { resolve(server) })
  })
}

function cannot (port: number, code: string): CliError {
  if (code !== 'EADDRINUSE') {
    return new CliError(exitCodes.failed,
      `cannot listen on ${HOST}:${port}: ${code}; choose other ports with --base-port`)
  }
  const holder = portHolder(port)
  const who = holder === undefined
    ? 'a process that this user cannot see'
    : `process ${holder.pid} (${holder.command.slice(0, 160)})`
  return new CliError(exitCodes.failed, `port ${port} is in use by ${who}; stop it, or choose other ports ` +
    'with --base-port (0: any free ones). Nothing was started')
}
