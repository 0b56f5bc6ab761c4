import { WebSocket } from 'ws'
import { WebsocketProvider } from 'y-websocket'
import { Doc } from 'yjs'
import { delay } from '../api/clock.js'
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../api/clock.js'

/** Longest wait for the first whole state, ms. */
const SYNC_LIMIT_MS = 15_000
/** Longest body of a refusal that is read, characters. */
const BODY_LIMIT = 64 * 1024

/** Why a connection ended; `quiet`: nobody has to be told, there simply was no news. */
export interface Ended { quiet: boolean, why: string }

/** One connection to the read-only replica of /state. */
export interface Replica {
  /** Every key as it is now. */
  current (): ReadonlyMap<string, unknown>
  /** Resolves when the connection has ended. */
  readonly over: Promise<Ended>
  close (): void
}

/** Why there is no replica. `refused` carries the node's answer. */
export class ReplicaError extends Error {
  override readonly name = 'ReplicaError'
  readonly kind: 'refused' | 'unreachable' | 'too late' | 'aborted'
  readonly answer: { status: number, body: string } | undefined
  constructor (kind: ReplicaError['kind'], message: string, answer?: { status: number, body: string }) {
    super(message)
    this.kind = kind
    this.answer = answer
  }
}

export interface ReplicaOptions {
  /** Address of the node's API, http or https. */
  url: string
  headers: Record<string, string>
  signal: AbortSignal
  clock: Clock
  /** Called after every change, once the first whole state is there. */
  changed (): void
}

/**
 * Opens `/state/sync` with the client protocol of y-websocket and resolves when the first whole state has
 * arrived. The document holds one root array `entries` of `{key, val}`; of two entries with one key the later
 * one counts. Throws ReplicaError.
 */
export async function openReplica (options: ReplicaOptions): Promise<Replica> {
  const { url, headers, signal, clock, changed } = options
  const failure = pending()
  const doc = new Doc()
  const provider = new WebsocketProvider(`${url.replace(/^http/, 'ws')}/state`, 'sync', doc, {
    disableBc: true, connect: false, WebSocketPolyfill: socketWith(headers, failure.reject)
  })
  const entries = doc.getArray<{ key: string, val: unknown }>('entries')
  const close = (): void => {
    provider.destroy()
    doc.destroy()
  }
  const over = new Promise<Ended>((resolve) => {
    provider.on('connection-close', (event) => {
      // The next connection gets a document of its own: the node may have begun a new one.
      provider.shouldConnect = false
      const silent = { quiet: true, why: 'nothing was heard for 30 s' }
      resolve(event === null ? silent : { quiet: false, why: ending(event) })
    })
  })
  const synced = new Promise<void>((resolve) => { provider.on('sync', (ok) => { if (ok) resolve() }) })
  const stop = (): void => { failure.reject(new ReplicaError('aborted', 'aborted')) }
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  void over.then(({ why }) => { failure.reject(new ReplicaError('unreachable', why)) })
  void delay(clock, SYNC_LIMIT_MS).then(() => {
    failure.reject(new ReplicaError('too late', `no whole state within ${SYNC_LIMIT_MS / 1000} s`))
  })
  try {
    provider.connect()
    await Promise.race([synced, failure.promise])
  } catch (error) {
    close()
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
  entries.observe(changed)
  return { over, close, current: () => new Map(entries.map(({ key, val }) => [key, val] as const)) }
}

/** A promise that somebody may reject, and nobody has to wait for. */
function pending (): { promise: Promise<never>, reject: (error: ReplicaError) => void } {
  let reject: (error: ReplicaError) => void = () => {}
  const promise = new Promise<never>((_, no) => { reject = no })
  promise.catch(() => {})
  return { promise, reject }
}

/** The provider makes its own sockets; only a class can give them headers and read a refusal. */
function socketWith (
  headers: Record<string, string>, fail: (error: ReplicaError) => void
): typeof globalThis.WebSocket {
  class Socket extends WebSocket {
    constructor (address: string, protocols: string[]) {
      super(address, protocols, { headers })
      this.on('unexpected-response', (_, response) => { void refusal(response).then(fail) })
      this.on('error', ({ message }) => { fail(new ReplicaError('unreachable', message)) })
    }
  }
  return Socket as unknown as typeof globalThis.WebSocket
}

/** What the node answered instead of opening the socket. */
async function refusal (response: IncomingMessage): Promise<ReplicaError> {
  let body = ''
  try {
    for await (const part of response) if (body.length < BODY_LIMIT) body += String(part)
  } catch { /* the status alone has to do */ }
  const status = response.statusCode ?? 0
  return new ReplicaError('refused', `the node answered ${status}`, { status, body })
}

function ending ({ code, reason }: { code: number, reason: string }): string {
  return `the node ended the connection (${code}${reason === '' ? '' : `: ${reason}`})`
}
