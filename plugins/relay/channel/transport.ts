import { MESSAGE_BYTES, type Session } from './noise.js'
import { TAG_BYTES } from './suite.js'
import type { Clock } from '../../../kernel/index.js'

/** Limits in bytes and in ms after which the sender changes its key. */
const REKEY_BYTES = 1024 ** 3
const REKEY_MS = 3_600_000
/** An empty frame, which announces that the sender's next messages use a new key. */
const REKEY = new Uint8Array()

export const FRAME_BYTES = MESSAGE_BYTES - TAG_BYTES

/** Encrypts frames, one per message. It throws after a lost or altered one; then end the connection. */
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

  /** Encrypts a frame of 1 to FRAME_BYTES bytes as one message, after an extra one if the key changes. */
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

  /** Decrypts a message to its frame; null for a rekey message. */
  open (message: Uint8Array): Uint8Array | null {
    const { receiving } = this.#session
    const frame = receiving.decrypt(message)
    if (frame.length > 0) return frame
    receiving.rekey()
    return null
  }
}
