import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Caller, StreamWriter } from '../../../kernel/index.js'

/** Path at which a donor accepts its driver's connections; the driver's bytes are fetched from a subpath. */
export const TUNNELS_PATH = '/runners/donors'
export const TUNNEL_TYPE = 'application/octet-stream'
export const LOOPBACK = '127.0.0.1'
/** Limit on connections from one driver to one donor; llama.cpp keeps one and sometimes uses another. */
export const TUNNELS_MAX = 8
export const NODE_CALLER: Caller = { id: 'node', mode: 'direct', authorities: new Set(['invoke']) }
/** Milliseconds without progress after which a tunnel closes; llama.cpp has its own limit for slow peers. */
export const STALL_MS = 3_600_000

/** Sends the bytes of a socket to the other node. Resolves at the end; rejects if a connection breaks. */
export async function send (socket: Socket, stream: StreamWriter): Promise<void> {
  try {
    for await (const bytes of socket as AsyncIterable<Uint8Array>) await stream.write(bytes)
    await stream.end()
  } catch (error) {
    stream.cut()
    throw error
  }
}

/** Writes the other node's bytes to a socket. Resolves at the end; rejects if a connection breaks. */
export async function receive (body: Readable, socket: Socket): Promise<void> {
  await pipeline(body, socket)
}

/** Connects to a port of a program on this machine. */
export async function connected (port: number, signal?: AbortSignal): Promise<Socket> {
  const socket = connect({ host: LOOPBACK, port, noDelay: true, signal })
  await once(socket, 'connect')
  socket.on('error', () => {})
  return socket
}
