import { WebSocket } from 'ws'
import { backoffMs, type Clock, type DialReport, type NodeKey } from '../../../kernel/cluster.js'
import { readAddress } from '../identity/addresses.js'
import { dial, peerFingerprint } from '../identity/tls.js'
import { socketOptions } from './link.js'
import type { TLSSocket } from 'node:tls'
import type { Members } from '../members/file.js'
import type { Member } from '../members/member.js'
import type { LinkLimits } from './limits.js'

/** An address to dial and the member expected there; null accepts any member. */
export interface Target { address: string, host: string, port: number, installId: string | null }

export interface DiallerOptions {
  clock: Clock
  limits: LinkLimits
  /** Uniform in [0, 1). */
  random: () => number
  members: () => readonly { installId: string, addresses: readonly string[] }[]
  linked: (installId: string) => boolean
  /**
   * One attempt, from TCP to the other end's hello. Resolves with the install id of the member found there,
   * even if the link is not kept (see `linked`); rejects with the reason as the error's message.
   */
  attempt: (target: Target, signal: AbortSignal) => Promise<string>
}

/** Pause in ms before retrying a hint that led to this node itself. */
const SELF_MS = 60_000
/** Maximum number of hints; a new one replaces the oldest. */
const MAX_HINTS = 256

interface Entry {
  target: Target
  /** Install id of the member that answered at a hinted address; null before that. */
  found: string | null
  attempts: number, reason: string | null, abort: AbortController | undefined, dueMs: number
  cancel: (() => void) | undefined
}

/** Dials the addresses of all unlinked members, and the hints, each with a separate backoff. */
export class Dialler {
  readonly #options: DiallerOptions
  readonly #entries = new Map<string, Entry>()
  readonly #hints = new Set<string>()
  #running = false

  constructor (options: DiallerOptions) { this.#options = options }

  start (): void {
    this.#running = true
    this.update()
  }

  /** Recomputes whom to dial; call it when members, links or hints have changed. */
  update (): void {
    const targets = this.#targets()
    for (const [key, entry] of this.#entries) {
      if (targets.has(key)) continue
      stop(entry)
      this.#entries.delete(key)
    }
    for (const [key, target] of targets) {
      if (this.#entries.has(key)) continue
      this.#entries.set(key, {
        target, found: null, attempts: 0, reason: null, abort: undefined, dueMs: 0, cancel: undefined
      })
    }
    for (const entry of this.#entries.values()) this.#settle(entry)
  }

  hint (address: string): void {
    if (readAddress(address) === undefined || this.#hints.has(address)) return
    if (this.#hints.size >= MAX_HINTS) this.#hints.delete(this.#hints.values().next().value!)
    this.#hints.add(address)
    this.update()
  }

  dials (): readonly DialReport[] { return [...this.#entries.values()].map((entry) => this.#show(entry)) }

  close (): void {
    this.#running = false
    for (const entry of this.#entries.values()) stop(entry)
    this.#entries.clear()
  }

  #targets (): Map<string, Target> {
    const targets = new Map<string, Target>()
    const known = new Set<string>()
    const add = (address: string, installId: string | null): void => {
      const read = readAddress(address)
      if (read !== undefined) targets.set(`${installId ?? ''} ${address}`, { address, ...read, installId })
    }
    for (const { installId, addresses } of this.#options.members()) {
      for (const address of addresses) {
        known.add(address)
        add(address, installId)
      }
    }
    for (const address of this.#hints) if (!known.has(address)) add(address, null)
    return targets
  }

  #done (entry: Entry): boolean {
    const installId = whose(entry)
    return installId !== null && this.#options.linked(installId)
  }

  /** Stops dialling an entry whose member is linked; schedules the next attempt of any other. */
  #settle (entry: Entry): void {
    if (this.#done(entry)) {
      stop(entry)
      entry.reason = null
      entry.attempts = 0
    } else if (this.#running && entry.cancel === undefined && entry.abort === undefined) {
      this.#plan(entry)
    }
  }

  #plan (entry: Entry): void {
    const { clock } = this.#options
    const ms = this.#pause(entry)
    entry.dueMs = clock.mono() + ms
    entry.cancel = clock.after(ms, () => {
      entry.cancel = undefined
      void this.#attempt(entry)
    })
  }

  #pause ({ attempts, reason }: Entry): number {
    const { limits, random } = this.#options
    // At the start and after a link breaks, wait a short random time, so that both ends do not dial at once.
    if (attempts === 0) return random() * limits.backoffMinMs
    if (reason === 'self') return SELF_MS
    return backoffMs(attempts, { minMs: limits.backoffMinMs, maxMs: limits.backoffMaxMs }, random())
  }

  async #attempt (entry: Entry): Promise<void> {
    const abort = entry.abort = new AbortController()
    let reason: string | null = null
    try {
      entry.found = await this.#options.attempt(entry.target, abort.signal)
    } catch (error) { reason = (error as Error).message }
    // The entry was stopped during the attempt, and may have been started again.
    if (entry.abort !== abort) return
    entry.abort = undefined
    entry.reason = reason
    entry.attempts = reason === null ? 0 : entry.attempts + 1
    this.#settle(entry)
  }

  #show (entry: Entry): DialReport {
    const dialling = entry.abort === undefined ? 'waiting' : 'dialling'
    const state = this.#done(entry) ? 'connected' : dialling
    const nextInMs = entry.cancel === undefined ? null : Math.max(0, entry.dueMs - this.#options.clock.mono())
    const { attempts, reason, target } = entry
    return { address: target.address, installId: whose(entry), state, reason, attempts, nextInMs }
  }
}

const whose = (entry: Entry): string | null => entry.target.installId ?? entry.found

function stop (entry: Entry): void {
  entry.cancel?.()
  entry.cancel = undefined
  entry.abort?.abort()
  entry.abort = undefined
}

const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused', ETIMEDOUT: 'timeout', ECONNRESET: 'closed', EPIPE: 'closed',
  ENOTFOUND: 'name_not_found', EAI_AGAIN: 'name_not_found',
  EHOSTUNREACH: 'no_route', ENETUNREACH: 'no_route', EHOSTDOWN: 'no_route', EADDRNOTAVAIL: 'no_route'
}

/**
 * The reason for a failed dial: `refused`, `timeout`, `wrong_key`, `name_not_found`, `no_route`, `closed`
 * (the other end does not know this node's key or is not a members' listener), `self` (the address is this
 * node's own), `removed` (this node is no longer a member), a close code's name, or the system's error code.
 */
export function dialReason (error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code !== 'string') return 'failed'
  return words[code] ?? code
}

export const CLUSTER_PATH = '/cluster'
/** HTTP status that refuses a link from a member that was removed from the cluster. */
export const REMOVED_STATUS = 410
/** Host header of requests between members; connections are authenticated by key, not by name. */
export const MEMBERS_HOST = 'svc-members'

export interface ConnectOptions { key: NodeKey, members: Members, clock: Clock, limits: LinkLimits }

const aborted = (): Error => new Error('aborted')

/** Connects and checks the key: the expected member's, or any. Rejects with dialReason as the message. */
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
  // The member was removed during the handshake.
  socket.on('error', () => {}).destroy()
  throw new Error('wrong_key')
}

/**
 * Upgrades an authenticated connection to a WebSocket. `opened` is called with the WebSocket before its first
 * message arrives; resolves with the result of `opened`. Rejects with the reason as the message.
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
      // Ignore later errors from the abandoned socket.
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
    // In TLS 1.3 the client completes the handshake first: a peer that rejects its key closes only now.
    const onError = ({ message }: Error): void => {
      fail(new Error(message.endsWith(` ${REMOVED_STATUS}`) ? 'removed' : 'closed'))
    }
    ws.on('open', onOpen).on('error', onError)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
  })
}
