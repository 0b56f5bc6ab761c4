import { readAddress } from '../identity/addresses.js'
import { backoffMs } from '../../api/backoff.js'
import type { Clock } from '../../api/clock.js'
import type { DialReport } from '../../api/services.js'
import type { LinkLimits } from './limits.js'

/** Where to dial, and whom to expect there; null: any member. */
export interface Target {
  address: string
  host: string
  port: number
  installId: string | null
}

export interface DiallerOptions {
  clock: Clock
  limits: LinkLimits
  /** Uniform in [0, 1). */
  random: () => number
  /** Addresses of the other members. */
  members: () => readonly { installId: string, addresses: readonly string[] }[]
  /** True while a link to that member is up. */
  linked: (installId: string) => boolean
  /**
   * One attempt, from TCP to the other end's hello. Resolves with the member found there, rejects with the
   * reason as the error's message. Whether the link stays is told by `linked`.
   */
  attempt: (target: Target, signal: AbortSignal) => Promise<string>
}

/** A hint that leads back to this node is tried again this seldom. */
const SELF_MS = 60_000
/** Hints that are kept; more of them replace the oldest. */
const MAX_HINTS = 256

interface Entry {
  target: Target
  /** Of a hint: whom it led to. */
  found: string | null
  attempts: number
  reason: string | null
  abort: AbortController | undefined
  dueMs: number
  cancel: (() => void) | undefined
}

/** Dials every address of every member no link is up to, and the hints, each with its own backoff. */
export class Dialler {
  readonly #options: DiallerOptions
  readonly #entries = new Map<string, Entry>()
  readonly #hints = new Set<string>()
  #running = false

  constructor (options: DiallerOptions) {
    this.#options = options
  }

  start (): void {
    this.#running = true
    this.update()
  }

  /** Looks again at whom to dial: after members, links or hints changed. */
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

  dials (): readonly DialReport[] {
    return [...this.#entries.values()].map((entry) => this.#show(entry))
  }

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

  /** Makes what an entry does fit the links: nothing while its member is linked, else the next attempt. */
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
    // At the start and after a link broke: soon, at a random moment so that both ends do not dial in step.
    if (attempts === 0) return random() * limits.backoffMinMs
    if (reason === 'self') return SELF_MS
    return backoffMs(attempts, { minMs: limits.backoffMinMs, maxMs: limits.backoffMaxMs }, random())
  }

  async #attempt (entry: Entry): Promise<void> {
    const abort = entry.abort = new AbortController()
    let reason: string | null = null
    try {
      entry.found = await this.#options.attempt(entry.target, abort.signal)
    } catch (error) {
      reason = (error as Error).message
    }
    // The entry was stopped during the attempt, and perhaps started again.
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
