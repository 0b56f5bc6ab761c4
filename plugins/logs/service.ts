import { defineService } from '../../kernel/index.js'

export interface ShippingStats {
  /** Lines that the receiver accepted. */
  readonly sent: number
  /** Lines that were never delivered: the queue was full, or the receiver refused them. */
  readonly dropped: number
  /** Queued lines, and their UTF-8 bytes. */
  readonly waiting: number
  readonly waitingBytes: number
  /** Failed attempts in a row; 0 after a success. */
  readonly failures: number
  /** Why the last attempt failed; null after a success. */
  readonly problem: string | null
  /** ISO-8601 of the last accepted batch. */
  readonly lastSentAt: string | null
}

/** Shipping of this node's log to `logging.ingest_url`; null without an address. */
export const ShippingService = defineService<{ readonly shipping: ShippingStats | null }>('logs.shipping')
