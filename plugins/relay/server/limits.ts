import type { Clock } from '../../../kernel/index.js'

const MIB = 1024 * 1024

export const relayLimits = {
  connections: 4096,
  /** Maximum connections from one address; unlimited for loopback, which may be a proxy. */
  connectionsPerAddress: 256,
  /** Limits on new connections from one address: burst, and rate per second. */
  newPerAddress: { burst: 120, perSecond: 20 },
  devicesPerRoute: 64,
  /** Bytes per second for all traffic of a route, both directions together; also the maximum burst. */
  bytesPerSecond: 64 * MIB,
  /** Bytes queued for one connection, and for all, above which the relay stops reading from the sender. */
  queuedBytes: MIB,
  queuedBytesInAll: 256 * MIB,
  firstMs: 5000,
  /** Time limit in ms for a node to accept a device, and the delay in ms before each refusal of a device. */
  joinMs: 5000,
  refuseMs: 1000,
  /** Interval of pings in ms; a connection must answer each ping before the next. */
  pingMs: 15_000,
  stallMs: 60_000
}
export type RelayLimits = Readonly<typeof relayLimits>

/** A token bucket that refills continuously. It may be overdrawn; the caller must then wait. */
export class Bucket {
  readonly #clock: Pick<Clock, 'mono'>
  readonly #burst: number
  readonly #perSecond: number
  #left: number
  #atMs: number

  constructor (clock: Pick<Clock, 'mono'>, burst: number, perSecond: number) {
    this.#clock = clock
    this.#burst = burst
    this.#perSecond = perSecond
    this.#left = burst
    this.#atMs = clock.mono()
  }

  /** Takes `amount` tokens. Returns the ms to wait if this overdraws the bucket, otherwise 0. */
  take (amount: number): number {
    const now = this.#clock.mono()
    this.#left = Math.min(this.#burst, this.#left + (now - this.#atMs) / 1000 * this.#perSecond) - amount
    this.#atMs = now
    return this.#left >= 0 ? 0 : Math.ceil(-this.#left / this.#perSecond * 1000)
  }

  give (amount: number): void { this.#left += amount }

  /** Whether the bucket is full. */
  get idle (): boolean {
    return this.#left + (this.#clock.mono() - this.#atMs) / 1000 * this.#perSecond >= this.#burst
  }
}

export class Visitors {
  readonly #limits: RelayLimits
  readonly #clock: Pick<Clock, 'mono'>
  readonly #known = new Map<string, { open: number, fresh: Bucket }>()
  #open = 0

  constructor (limits: RelayLimits, clock: Pick<Clock, 'mono'>) {
    this.#limits = limits
    this.#clock = clock
  }

  get open (): number { return this.#open }

  /** Returns a function that releases the connection; undefined at a limit. `free` skips address limits. */
  enter (address: string, free: boolean): (() => void) | undefined {
    const { connections, connectionsPerAddress, newPerAddress: { burst, perSecond } } = this.#limits
    if (this.#open >= connections) return undefined
    const visitor = this.#known.get(address) ?? { open: 0, fresh: new Bucket(this.#clock, burst, perSecond) }
    if (!free) {
      if (visitor.open >= connectionsPerAddress) return undefined
      if (visitor.fresh.take(1) > 0) {
        visitor.fresh.give(1)
        return undefined
      }
    }
    visitor.open++
    this.#open++
    this.#known.set(address, visitor)
    let inside = true
    return () => {
      if (!inside) return
      inside = false
      visitor.open--
      this.#open--
      this.#forget()
    }
  }

  /** Removes idle addresses, so that the map stays proportional to open and recent connections. */
  #forget (): void {
    if (this.#known.size < 2 * this.#limits.connections) return
    for (const [address, { open, fresh }] of this.#known) {
      if (open === 0 && fresh.idle) this.#known.delete(address)
    }
  }
}
