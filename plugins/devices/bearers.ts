import { createHash } from 'node:crypto'
import { newToken, wellFormed, type Clock } from '../../kernel/index.js'

/** Lifetime of a bearer token in seconds. */
export const BEARER_SECONDS = 600
/** Maximum bearers per device at this node; one more replaces the oldest. */
const MOST_BEARERS = 16

interface Held { readonly deviceId: string, readonly relayed: boolean, readonly endsMs: number }

const hashOf = (token: string): string => createHash('sha256').update(token).digest('base64')

export class Bearers {
  readonly #clock: Clock
  /** Bearers by token hash, oldest first. The 256 secret bits make a lookup by hash safe. */
  readonly #held = new Map<string, Held>()

  constructor (clock: Clock) { this.#clock = clock }

  /** `relayed`: the bearer is valid only through a relay, where a device may have fewer authorities. */
  issue (deviceId: string, relayed: boolean): string {
    this.forget()
    const own = [...this.#held].filter(([, held]) => held.deviceId === deviceId)
    for (const [hash] of own.slice(0, Math.max(0, own.length - MOST_BEARERS + 1))) this.#held.delete(hash)
    const token = newToken('dev')
    this.#held.set(hashOf(token), { deviceId, relayed, endsMs: this.#clock.mono() + BEARER_SECONDS * 1000 })
    return token
  }

  /** The device of a bearer; undefined if unknown or expired, or if a relayed one arrives directly. */
  deviceOf (token: string, relayed: boolean): string | undefined {
    if (!wellFormed(token)) return undefined
    const held = this.#held.get(hashOf(token))
    if (held === undefined || held.endsMs <= this.#clock.mono()) return undefined
    return held.relayed && !relayed ? undefined : held.deviceId
  }

  forget (): void {
    const now = this.#clock.mono()
    for (const [hash, { endsMs }] of this.#held) if (endsMs <= now) this.#held.delete(hash)
  }
}
