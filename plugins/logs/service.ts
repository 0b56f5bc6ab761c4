import { defineService } from '../../kernel/index.js'

export interface ShippingStats {
  /** Lines that the receiver took. */
  readonly sent: number
  /** Lines it never got: the queue was full, or it refused them. */
  readonly dropped: number
  /** Lines that wait, and their bytes (UTF-8). */
  readonly waiting: number
  readonly waitingBytes: number
  /** Failed attempts in a row; 0 after a success. */
  readonly failures: number
  /** Why the last attempt failed, in words; null when it did not. */
  readonly problem: string | null
  /** ISO-8601 of the last accepted batch. */
  readonly lastSentAt: string | null
}

/** Shipping of this node's log to `logging.ingest_url`; null without an address. */
export const ShippingService = defineService<{ readonly shipping: ShippingStats | null }>('logs.shipping')
