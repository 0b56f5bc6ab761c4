import { constants } from 'node:crypto'
import { once } from 'node:events'
import { connect, type TLSSocket, type TlsOptions } from 'node:tls'
import { fingerprintOf, KEY_GROUPS, type Clock, type NodeKey } from '../../../kernel/cluster.js'

const HANDSHAKE_MS = 10_000

/** TLS 1.3 without a certificate authority: accepts every key; the listener compares the fingerprint. */
export function serverTls (key: NodeKey): TlsOptions {
  return {
    key: key.privateKeyPem, cert: key.certificatePem, minVersion: 'TLSv1.3', ecdhCurve: KEY_GROUPS,
    requestCert: true, rejectUnauthorized: false, handshakeTimeout: HANDSHAKE_MS,
    // Disables session resumption, so that each connection proves its key.
    secureOptions: constants.SSL_OP_NO_TICKET
  }
}

const proven = new WeakMap<TLSSocket, string>()

/**
 * Fingerprint of the key that the other end has proven; undefined without a readable certificate. Cached,
 * because on a client getPeerX509Certificate answers only once (node 20 removes the certificate from
 * OpenSSL's list on reading): use this function instead.
 */
export function peerFingerprint (socket: TLSSocket): string | undefined {
  const known = proven.get(socket)
  if (known !== undefined) return known
  try {
    const certificate = socket.getPeerX509Certificate()
    if (certificate === undefined) return undefined
    const found = fingerprintOf(certificate)
    proven.set(socket, found)
    return found
  } catch { return undefined }
}

/** Why a dial failed: `wrong_key`, `timeout`, `aborted`, or the system's or TLS library's own code. */
export interface DialError extends Error { code: string }

export interface DialOptions {
  key: NodeKey, host: string, port: number
  expect: string | ((fingerprint: string) => boolean)
  timeoutMs: number, clock: Clock, signal?: AbortSignal
}

function dialError (code: string, message: string): DialError {
  return Object.assign(new Error(message), { code })
}

/** Uses the first error of an AggregateError (one name, several addresses), which has no message itself. */
function systemError (where: string, error: NodeJS.ErrnoException): DialError {
  const first = error instanceof AggregateError ? error.errors[0] as NodeJS.ErrnoException : error
  return dialError(error.code ?? first.code ?? 'failed', `${where}: ${first.message}`)
}

function keyProblem (socket: TLSSocket, expect: DialOptions['expect']): string | null {
  const found = peerFingerprint(socket)
  if (found === undefined) return 'sent no key'
  if (typeof expect !== 'string') return expect(found) ? null : `has the unknown key ${found}`
  return found === expect ? null : `has the key ${found}, not the expected ${expect}`
}

/** Connects and checks the other end's key before it writes a byte. Rejects with a DialError. */
export async function dial (options: DialOptions): Promise<TLSSocket> {
  const { key, host, port, expect, timeoutMs, clock, signal } = options
  const where = `${host} port ${port}`
  if (signal?.aborted === true) throw dialError('aborted', `${where}: aborted before the start`)
  const over = new AbortController()
  const giveUp = (code: string, why: string): void => { over.abort(dialError(code, `${where}: ${why}`)) }
  const onAbort = (): void => { giveUp('aborted', 'aborted') }
  const socket = connect({
    host, port, key: key.privateKeyPem, cert: key.certificatePem, minVersion: 'TLSv1.3',
    ecdhCurve: KEY_GROUPS, rejectUnauthorized: false
  })
  signal?.addEventListener('abort', onAbort, { once: true })
  socket.once('close', () => { giveUp('closed', 'closed during the handshake') })
  const stopTimer = clock.after(timeoutMs, () => {
    giveUp('timeout', `no TLS connection within ${timeoutMs} ms`)
  })
  try {
    await once(socket, 'secureConnect', { signal: over.signal })
    const problem = keyProblem(socket, expect)
    if (problem === null) return socket
    throw dialError('wrong_key', `${where} ${problem}`)
  } catch (error) {
    // A destroyed socket may still emit an error.
    socket.on('error', () => {}).destroy()
    const { name, code } = error as DialError
    if (code === 'wrong_key') throw error
    throw name === 'AbortError' ? over.signal.reason : systemError(where, error as Error)
  } finally {
    stopTimer()
    signal?.removeEventListener('abort', onAbort)
  }
}
