import { isDeviceId } from './grants.js'
import type { Clock, Identity } from '../../kernel/index.js'
import type { Grant } from './signing/protocol.js'
import type { DeviceStore } from './store.js'
import type { DeviceNotes } from './notes.js'

/** Why a device is not valid now. */
export type InvalidReason = 'unknown' | 'revoked' | 'expired' | 'node_removed' | 'unheard'

/** Interval in ms at which contact with the cluster is checked and its time is written to disk. */
export const CHECK_MS = 10_000
const NOTE_MS = 600_000
/** Maximum length of a chain of devices that admitted each other; beyond it a device is not valid. */
const MOST_MAKERS = 8

export interface StandingOptions {
  book: DeviceStore
  notes: DeviceNotes
  clock: Clock
  identity: Pick<Identity, 'vouched'>
  /** Whether this node has contact with its cluster. */
  hears: () => boolean
}

export class DeviceValidity {
  readonly #options: StandingOptions
  /** Monotonic time of the last contact since startup; the notes hold the wall time of earlier contact. */
  #heardMs: number | undefined
  #notedMs: number | undefined
  readonly #startedMs: number

  constructor (options: StandingOptions) {
    this.#options = options
    this.#startedMs = options.clock.mono()
  }

  look (): void {
    const { clock, hears, notes } = this.#options
    if (!hears()) return
    this.#heardMs = clock.mono()
    if (this.#notedMs !== undefined && this.#heardMs - this.#notedMs < NOTE_MS) return
    this.#notedMs = this.#heardMs
    notes.noteTouch()
  }

  /** Milliseconds without contact with the cluster, across restarts. */
  get apartMs (): number {
    const { clock, notes } = this.#options
    if (this.#heardMs !== undefined) return clock.mono() - this.#heardMs
    const before = notes.inTouchMs
    // A new home has no notes, so count from this start.
    return before === null ? clock.mono() - this.#startedMs : Math.max(0, clock.now() - before)
  }

  deviceWith (agreementKey: Uint8Array): string | undefined {
    const key = Buffer.from(agreementKey).toString('base64url')
    for (const { grant } of this.#options.book.entries()) {
      if (grant?.agreementKey === key && typeof this.of(grant.deviceId) !== 'string') return grant.deviceId
    }
    return undefined
  }

  /** The valid grant of a device, or why there is none. */
  of (deviceId: string, makers = 0): Grant | InvalidReason {
    const { book, clock, identity } = this.#options
    if (book.revoked(deviceId) !== undefined) return 'revoked'
    const grant = book.grant(deviceId)
    if (grant === undefined) return 'unknown'
    if (Date.parse(grant.expires) <= clock.now()) return 'expired'
    const authorities = identity.vouched(Buffer.from(grant.nodeKey, 'base64url'), grant.authorities)
    if (authorities === undefined) return 'node_removed'
    if (this.apartMs > grant.maxOfflineSeconds * 1000) return 'unheard'
    // A device that another device admitted is invalid once that other device is.
    const byDevice = isDeviceId(grant.by)
    const ends = byDevice && (makers >= MOST_MAKERS || typeof this.of(grant.by, makers + 1) === 'string')
    if (ends) return 'revoked'
    return authorities.length === grant.authorities.length ? grant : { ...grant, authorities }
  }
}
