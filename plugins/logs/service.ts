import { defineService } from '../../kernel/index.js'

export interface ShippingStats {
  /** Number of lines that the receiver accepted. */
  readonly sent: number
  /** Number of lines never delivered, because the queue was full or the receiver refused them. */
  readonly dropped: number
  /** Number of queued lines, and their size in UTF-8 bytes. */
  readonly waiting: number
  readonly waitingBytes: number
  /** Failed attempts in a row; 0 after a success. */
  readonly failures: number
  /** Reason for the last failure; null after a success. */
  readonly problem: string | null
  /** ISO-8601 time at which a batch was last accepted. */
  readonly lastSentAt: string | null
}

/** Figures on shipping this node's log to `logging.ingest_url`; null if that is not set. */
export const ShippingService = defineService<{ readonly shipping: ShippingStats | null }>('logs.shipping')
