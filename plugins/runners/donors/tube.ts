import type { Readable } from 'node:stream'
import type { Socket } from 'node:net'
import { pipeline } from 'node:stream/promises'
import type { Caller, StreamWriter } from '../../../kernel/index.js'

/** Where donors take connections of their drivers, and drivers hand out what their side says. */
export const TUBES_PATH = '/runners/donors'
export const TUBE_TYPE = 'application/octet-stream'
export const LOOPBACK = '127.0.0.1'
/** Connections of one driver to one donor: llama.cpp keeps one, and asks on others now and then. */
export const TUBES_MAX = 8
/** In whose name a node asks another one for a connection. */
export const NODE_CALLER: Caller = { id: 'node', mode: 'direct', authorities: new Set(['invoke']) }
/** How slow the other side may be is for llama.cpp to say; this is for one that is lost, ms. */
export const STALL_MS = 3_600_000

/** Everything a socket says, to the other node. Resolves at its end; rejects when either side breaks. */
export async function send (socket: Socket, stream: StreamWriter): Promise<void> {
  try {
    for await (const bytes of socket as AsyncIterable<Uint8Array>) await stream.write(bytes)
    await stream.end()
  } catch (error) {
    stream.cut()
    throw error
  }
}

/** Everything the other node says, to a socket. Resolves at its end; rejects when either side breaks. */
export async function receive (body: Readable, socket: Socket): Promise<void> {
  await pipeline(body, socket)
}
