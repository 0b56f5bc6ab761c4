import { defineService } from '../../kernel/index.js'

/** How shipping goes, since the node started. */
export interface Shipping {
  /** Lines that the receiver took. */
  readonly sent: number
  /** Lines it never got: the queue was full, or it refused them. */
  readonly dropped: number
  /** Lines that wait, and their bytes (UTF-8). */
  readonly waiting: number
  readonly waitingBytes: number
  /** Failed attempts in a row; 0 when the last one was taken. */
  readonly failures: number
  /** Why the last attempt failed, in words; null when it did not. */
  readonly problem: string | null
  /** ISO-8601 of the last batch that was taken. */
  readonly lastSentAt: string | null
}

/** How this node's log lines get to `logging.ingest_url`; null where no address is set. */
export const ShippingService = defineService<{ readonly shipping: Shipping | null }>('logs.shipping')
