import { WebSocket } from 'ws'
import { dial, peerFingerprint } from '../identity/tls.js'
import { socketOptions } from './link.js'
import type { TLSSocket } from 'node:tls'
import type { Clock } from '../../api/clock.js'
import type { NodeKey } from '../identity/key.js'
import type { Members } from '../members/file.js'
import type { Member } from '../members/member.js'
import type { Target } from './dialler.js'
import type { LinkLimits } from './limits.js'

const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused',
  ETIMEDOUT: 'timeout',
  ENOTFOUND: 'name_not_found',
  EAI_AGAIN: 'name_not_found',
  EHOSTUNREACH: 'no_route',
  ENETUNREACH: 'no_route',
  EHOSTDOWN: 'no_route',
  EADDRNOTAVAIL: 'no_route',
  ECONNRESET: 'closed',
  EPIPE: 'closed'
}

/**
 * Why a dial failed, as one word: `refused`, `timeout`, `wrong_key`, `name_not_found`, `no_route`, `closed`
 * (the other end hung up: it does not know this node's key, or is no member's listener), `self` (the address
 * is this node's own), a close code's word, or the code as the system gave it.
 */
export function dialReason (error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code !== 'string') return 'failed'
  return words[code] ?? code
}

/** Path of links on the members' listener. */
export const CLUSTER_PATH = '/cluster'
/** Host header of requests between members, whose connections are judged by their keys and not by names. */
export const MEMBERS_HOST = 'svc-members'

export interface ConnectOptions {
  key: NodeKey
  members: Members
  clock: Clock
  limits: LinkLimits
}

const aborted = (): Error => new Error('aborted')

/**
 * TCP and TLS to a target, its key compared: the one expected there, or any other member's. Rejects with the
 * reason (dialReason) as message.
 */
export async function connectMember (
  target: Target, options: ConnectOptions, signal: AbortSignal
): Promise<{ socket: TLSSocket, member: Member }> {
  const { key, members, clock, limits } = options
  let self = false
  const memberBy = (fingerprint: string | undefined): Member | undefined => {
    self = fingerprint === key.fingerprint
    const member = fingerprint === undefined || self ? undefined : members.byFingerprint(fingerprint)
    return target.installId === null || member?.installId === target.installId ? member : undefined
  }
  const { host, port } = target
  let socket: TLSSocket
  try {
    const expect = (fingerprint: string): boolean => memberBy(fingerprint) !== undefined
    socket = await dial({ key, host, port, expect, timeoutMs: limits.dialMs, clock, signal })
  } catch (error) {
    throw new Error(self ? 'self' : dialReason(error), { cause: error })
  }
  const member = memberBy(peerFingerprint(socket))
  if (member !== undefined) return { socket, member }
  // Removed while the connection was made.
  socket.on('error', () => {}).destroy()
  throw new Error('wrong_key')
}

/**
 * Makes a WebSocket of a connection whose key was compared. `opened` gets it in the same tick, before its
 * first message; resolves as that does. Rejects with the reason as message.
 */
export function upgrade<T> (
  socket: TLSSocket, { clock, limits }: ConnectOptions, signal: AbortSignal,
  opened: (ws: WebSocket) => Promise<T>
): Promise<T> {
  return new Promise((resolve, reject) => {
    const ws = new WebSocket(`ws://${MEMBERS_HOST}${CLUSTER_PATH}`, {
      ...socketOptions(limits), createConnection: () => socket
    })
    const fail = (error: Error): void => {
      settle()
      // Later errors of a socket that is given up are of no interest.
      ws.on('error', () => {})
      ws.terminate()
      socket.destroy()
      reject(error)
    }
    const settle = (): void => {
      stopTimer()
      signal.removeEventListener('abort', onAbort)
      ws.off('open', onOpen).off('error', onError)
    }
    const stopTimer = clock.after(limits.helloMs, () => { fail(new Error('timeout')) })
    const onAbort = (): void => { fail(aborted()) }
    const onOpen = (): void => {
      settle()
      resolve(opened(ws))
    }
    // A peer that does not know this node's key closes only now: in TLS 1.3 the client finishes first.
    const onError = (): void => { fail(new Error('closed')) }
    ws.on('open', onOpen).on('error', onError)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
  })
}
