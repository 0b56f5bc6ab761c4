import { MESSAGE_BYTES } from './noise.js'
import { TAG_BYTES } from './suite.js'
import type { Clock } from '../../../kernel/index.js'
import type { Session } from './noise.js'

/** After how many bytes, and after which time, the sender takes its next key. */
const REKEY_BYTES = 1024 ** 3
const REKEY_MS = 3_600_000
/** Says that the sender's messages have the next key from here on. */
const REKEY = new Uint8Array()

/** Most bytes of one frame. */
export const FRAME_BYTES = MESSAGE_BYTES - TAG_BYTES

/**
 * Frames over a session, one per message. A lost, reordered, repeated or altered message throws, and later
 * ones are unreadable: the connection has to end.
 */
export class Transport {
  readonly #session: Session
  readonly #clock: Pick<Clock, 'mono'>
  #sealed = 0
  #sinceMs: number

  constructor (session: Session, clock: Pick<Clock, 'mono'>) {
    this.#session = session
    this.#clock = clock
    this.#sinceMs = clock.mono()
  }

  /** The messages that carry a frame, which is not empty and has FRAME_BYTES at most. */
  seal (frame: Uint8Array): Uint8Array[] {
    const { sending } = this.#session
    const due = this.#sealed >= REKEY_BYTES || this.#clock.mono() - this.#sinceMs >= REKEY_MS
    const before = due ? [sending.encrypt(REKEY)] : []
    if (due) {
      sending.rekey()
      this.#sealed = 0
      this.#sinceMs = this.#clock.mono()
    }
    this.#sealed += frame.length
    return [...before, sending.encrypt(frame)]
  }

  /** The frame in a message; null for one that only said something about keys. */
  open (message: Uint8Array): Uint8Array | null {
    const { receiving } = this.#session
    const frame = receiving.decrypt(message)
    if (frame.length > 0) return frame
    receiving.rekey()
    return null
  }
}
