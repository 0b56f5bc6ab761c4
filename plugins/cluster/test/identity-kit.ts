import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type TlsOptions, type TLSSocket } from 'node:tls'
import { openNodeKey, type NodeKey } from '../../../kernel/boot/node-key.js'
import { serverTls } from '../identity/tls.js'
import { prepareHome } from '../../../kernel/boot/home.js'
import type { AddressInfo, Server, Socket } from 'node:net'
import type { Applicant } from '../members/member.js'

export interface Owner { teardown (fn: () => void): unknown }

export function tempHome (t: Owner): string {
  const path = mkdtempSync(join(tmpdir(), 'svc-identity-'))
  t.teardown(() => { rmSync(path, { recursive: true, force: true }) })
  prepareHome(path)
  return path
}

export async function tempKey (t: Owner): Promise<NodeKey> {
  return await openNodeKey(tempHome(t), randomUUID())
}

export function candidate (key: NodeKey, more: Partial<Applicant> = {}): Applicant {
  const { installId, fingerprint } = key
  return { installId, fingerprint, name: 'ada', addresses: ['127.0.0.1:7001'], ...more }
}

export async function listening (t: Owner, server: Server): Promise<number> {
  t.teardown(() => { server.close() })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  return (server.address() as AddressInfo).port
}

/** Returns the error that `fn` throws, or an error that says that nothing was thrown. */
export function thrown (fn: () => unknown): unknown {
  try {
    fn()
  } catch (error) {
    return error
  }
  return new Error('nothing was thrown')
}

export interface Listener {
  port: number
  /** The newest connection with a completed handshake. */
  accepted (): Promise<TLSSocket>
  /** Application bytes received on all connections. */
  bytes (): number
  /** Resolves when a connection closes, with or without a handshake. */
  ended (): Promise<void>
}

/** A real TLS listener of a node that counts received bytes. */
export async function listener (t: Owner, key: NodeKey, more: TlsOptions = {}): Promise<Listener> {
  let bytes = 0
  const arrived: TLSSocket[] = []
  let wake = (): void => {}
  let over = (): void => {}
  const ended = new Promise<void>((resolve) => { over = resolve })
  const server = createServer({ ...serverTls(key), ...more }, (socket) => {
    socket.on('data', (data) => { bytes += data.byteLength })
    socket.on('error', () => {})
    arrived.push(socket)
    wake()
  })
  server.on('tlsClientError', () => {})
  server.on('connection', (socket: Socket) => {
    socket.on('close', () => { over() })
    t.teardown(() => { socket.destroy() })
  })
  const port = await listening(t, server)
  return {
    port,
    bytes: () => bytes,
    ended: () => ended,
    async accepted () {
      while (arrived.length === 0) await new Promise<void>((resolve) => { wake = resolve })
      return arrived.pop()!
    }
  }
}
