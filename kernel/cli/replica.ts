import { WebSocket } from 'ws'
import { WebsocketProvider } from 'y-websocket'
import { Doc } from 'yjs'
import { delay, systemClock } from '../api/clock.js'
import { stateOf } from '../state/entries.js'
import { apiFailure, CliError, exitCodes, interrupted, readApiError } from './errors.js'
import type { Agent, IncomingMessage } from 'node:http'
import type { Entry } from '../state/entries.js'
import type { Client } from './client.js'

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

/**
 * Opens `/state/sync` with the client protocol of y-websocket and resolves when the first whole state has
 * arrived. `kernel/state/entries.ts` says what the document holds. `changed` is called after every change
 * from then on. Throws CliError: 7 when nothing answers, else by the answer.
 */
export async function openReplica (
  { url, agent, credential }: Client, signal: AbortSignal, changed: () => void
): Promise<Replica> {
  const failure = pending()
  const unreachable = (why: string): CliError => new CliError(exitCodes.unreachable,
    `no node answers at ${url}: ${why}; start one with \`svc up\`, or name another with --url`)
  const authorization = await credential('/state/sync')
  const doc = new Doc()
  const Socket = socketWith(authorization, await agent(), failure.reject, unreachable)
  const provider = new WebsocketProvider(`${url.replace(/^http/, 'ws')}/state`, 'sync', doc, {
    disableBc: true, connect: false, WebSocketPolyfill: Socket
  })
  const entries = doc.getArray<Entry>('entries')
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
  const stop = (): void => { failure.reject(interrupted()) }
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  void over.then(({ why }) => { failure.reject(unreachable(why)) })
  void delay(systemClock, SYNC_LIMIT_MS).then(() => {
    failure.reject(new CliError(exitCodes.notReady,
      `${url}: no whole state within ${SYNC_LIMIT_MS / 1000} s; \`svc doctor\` shows what is wrong`))
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
  return { over, close, current: () => new Map(Object.entries(stateOf(entries))) }
}

/** A promise that somebody may reject, and nobody has to wait for. */
function pending (): { promise: Promise<never>, reject: (error: CliError) => void } {
  let reject: (error: CliError) => void = () => {}
  const promise = new Promise<never>((_, no) => { reject = no })
  promise.catch(() => {})
  return { promise, reject }
}

/** The provider makes its own sockets; only a class can give them headers and read a refusal. */
function socketWith (
  authorization: string | undefined, agent: Agent | undefined,
  fail: (error: CliError) => void, unreachable: (why: string) => CliError
): typeof globalThis.WebSocket {
  const headers: Record<string, string> = authorization === undefined ? {} : { authorization }
  class Socket extends WebSocket {
    constructor (address: string, protocols: string[]) {
      super(address, protocols, { headers, agent })
      this.on('unexpected-response', (_, response) => { void refusal(response).then(fail) })
      this.on('error', (error) => { fail(error instanceof CliError ? error : unreachable(error.message)) })
    }
  }
  return Socket as unknown as typeof globalThis.WebSocket
}

/** What the node answered instead of opening the socket. */
async function refusal (response: IncomingMessage): Promise<CliError> {
  let body = ''
  try {
    for await (const part of response) if (body.length < BODY_LIMIT) body += String(part)
  } catch { /* the status alone has to do */ }
  return apiFailure(response.statusCode ?? 0, readApiError(body), body)
}

function ending ({ code, reason }: { code: number, reason: string }): string {
  return `the node ended the connection (${code}${reason === '' ? '' : `: ${reason}`})`
}
