import { randomBytes } from 'node:crypto'
import {
  agreed, answerMac, commitBytes, deviceIdOf, isSignedBy, KEY_BYTES, newKeyPair, pairSecrets, proofBytes,
  sha256, transcriptBytes
} from '../../kernel/index.js'
import type { Clock, DeviceHalf, Identity, KeyPair, NodeHalf, SvcError } from '../../kernel/index.js'

/** How long the operator's window stays open, and how often a device may begin in it. */
export const WINDOW_SECONDS = 120
export const TRIES = 5
/** A device that has begun and says nothing more gives way after this, ms. */
const SILENT_MS = 10_000
/** How long a device may ask how its attempt ended, ms. */
const ANSWER_MS = 60_000
export const NONCE_BYTES = 16

/** What the operator has in mind for the device, unless the confirmation says otherwise. */
export interface Wish {
  readonly name: string | null
  readonly authorities: readonly string[]
  readonly viaRelay: readonly string[]
  readonly expires: string
  readonly maxOfflineSeconds: number
  readonly by: string
}

type Stage = 'begun' | 'compare' | 'confirming' | 'paired' | 'refused'

interface Attempt {
  readonly id: string
  readonly commit: Buffer
  readonly node: NodeHalf
  readonly ephemeral: KeyPair
  readonly begunMs: number
  stage: Stage
  endedMs: number
  device?: DeviceHalf
  digits?: string
  answerKey?: Buffer
  /** The last answer to the device, and what guards it. */
  answer?: { text: string, mac: string }
}

interface Window { readonly wish: Wish, endsMs: number, readonly ends: string, tries: number }

/** What the operator sees of a window. */
export interface WindowView {
  readonly open: boolean
  readonly ends: string | null
  readonly triesLeft: number
  readonly wish: Wish | null
  /** The device to compare the digits with. */
  readonly device: { attempt: string, deviceId: string, name: string, digits: string } | null
}

type Refuse = (
  reason: 'pairing_closed' | 'pairing_open' | 'pairing_busy' | 'pairing_failed', message?: string,
  details?: Record<string, unknown>
) => SvcError

export interface PairingOptions {
  clock: Clock
  identity: Pick<Identity, 'publicKey' | 'agreementKey' | 'sign'>
  error: Refuse
}

/**
 * The node's side of pairing: one window, in it one device at a time. A device commits itself before it sees
 * anything of the node, so whoever sits between has one guess in a million at the digits with each try.
 * Nothing of it is kept: with the process the window is gone.
 */
export class Pairing {
  readonly #options: PairingOptions
  #window: Window | undefined
  #attempt: Attempt | undefined
  /** Attempts whose device may still ask how it ended. */
  readonly #ended = new Map<string, Attempt>()

  constructor (options: PairingOptions) { this.#options = options }

  /** Opens the window. Throws `pairing_open`. */
  open (wish: Wish): WindowView {
    const { clock, error } = this.#options
    if (this.#current() !== undefined) {
      throw error('pairing_open', `A pairing is open already, until ${this.#window!.ends}.`,
        { ends: this.#window!.ends })
    }
    const ms = WINDOW_SECONDS * 1000
    this.#window = {
      wish, tries: TRIES, endsMs: clock.mono() + ms, ends: new Date(clock.now() + ms).toISOString()
    }
    return this.view()
  }

  /** Closes the window and refuses who waits in it; a confirmation under way comes to its end before. */
  close (): void {
    if (this.#attempt?.stage === 'confirming') {
      this.#window!.endsMs = this.#options.clock.mono()
      return
    }
    if (this.#attempt !== undefined) this.#end(this.#attempt, 'refused')
    this.#window = undefined
  }

  view (): WindowView {
    const window = this.#current()
    const { stage, id, device, digits } = this.#attempt ?? {}
    const comparing = window !== undefined && (stage === 'compare' || stage === 'confirming')
    return {
      open: window !== undefined,
      ends: window?.ends ?? null,
      triesLeft: window?.tries ?? 0,
      wish: window?.wish ?? null,
      device: comparing
        ? { attempt: id!, deviceId: idOf(device!), name: device!.name, digits: digits! }
        : null
    }
  }

  /** Step 1 and 2: takes a device's commitment. Throws `pairing_closed` and `pairing_busy`. */
  begin (commit: Buffer): { attempt: string, node: NodeHalf } {
    const { clock, error, identity } = this.#options
    const window = this.#needed()
    const held = this.#attempt
    const silent = held?.stage === 'begun' && clock.mono() - held.begunMs >= SILENT_MS
    if (held !== undefined && !silent) {
      throw error('pairing_busy', 'Another device is being paired just now; try again in some seconds.')
    }
    if (held !== undefined) this.#end(held, 'refused')
    if (window.tries === 0) {
      this.close()
      throw error('pairing_closed', `${TRIES} devices have tried; open the pairing anew with \`svc pair\`.`)
    }
    window.tries--
    const ephemeral = newKeyPair('X25519')
    const node = {
      key: identity.publicKey, agreementKey: identity.agreementKey, ephemeral: ephemeral.publicKey,
      nonce: randomBytes(NONCE_BYTES)
    }
    const id = randomBytes(NONCE_BYTES).toString('base64url')
    this.#attempt = { id, commit, node, ephemeral, begunMs: clock.mono(), endedMs: 0, stage: 'begun' }
    return { attempt: id, node }
  }

  /**
   * Step 3 and 4: the device shows what it had committed itself to, and that the key is its own. Returns the
   * node's signature over what was said. Throws `pairing_closed` and `pairing_failed`.
   */
  reveal (id: string, device: DeviceHalf, proof: Buffer): Uint8Array {
    this.#needed()
    const attempt = this.#attempt
    if (attempt?.id !== id || attempt.stage !== 'begun') throw this.#unknown()
    const hash = sha256(transcriptBytes(attempt.commit, attempt.node, device))
    const problem = attempt.commit.equals(sha256(commitBytes(device)))
      ? isSignedBy(device.key, proofBytes(hash), proof) ? null : 'its key is not its own'
      : 'it shows something else than it had committed itself to'
    if (problem !== null) throw this.#fail(attempt, problem)
    let shared: Buffer
    try {
      shared = agreed(attempt.ephemeral.privateKey, device.ephemeral)
    } catch {
      throw this.#fail(attempt, 'its ephemeral key is of no use')
    }
    Object.assign(attempt, pairSecrets(shared, hash), { device, stage: 'compare' })
    return this.#options.identity.sign('pair', hash)
  }

  /** Step 5: the operator has compared. Throws `pairing_closed`; `wish` is that of the window. */
  confirm (id: string): { device: DeviceHalf, deviceId: string, wish: Wish } {
    const { wish } = this.#needed()
    const attempt = this.#attempt
    if (attempt?.id !== id || attempt.stage !== 'compare') throw this.#unknown()
    attempt.stage = 'confirming'
    return { device: attempt.device!, deviceId: idOf(attempt.device!), wish }
  }

  /** The cluster has the grant: the device hears of it and the window closes. */
  done (id: string, answer: object): void {
    const attempt = this.#attempt
    if (attempt?.id !== id) return
    const text = JSON.stringify(answer)
    attempt.answer = { text, mac: answerMac(attempt.answerKey!, text) }
    this.#end(attempt, 'paired')
    this.#window = undefined
  }

  /** The cluster did not take the grant: the operator may confirm once more. */
  again (id: string): void {
    if (this.#attempt?.id === id && this.#attempt.stage === 'confirming') this.#attempt.stage = 'compare'
  }

  /** The operator says no; the window stays open for the tries that are left. False when nobody waits. */
  refuse (id: string): boolean {
    if (this.#attempt?.id !== id || this.#attempt.stage !== 'compare') return false
    this.#end(this.#attempt, 'refused')
    return true
  }

  /** How an attempt goes, for its device. Throws `pairing_closed` for one that nobody knows. */
  outcome (id: string): { state: 'waiting' | 'paired' | 'refused', answer: Attempt['answer'] | null } {
    this.#current()
    const attempt = this.#attempt?.id === id ? this.#attempt : this.#ended.get(id)
    if (attempt === undefined) throw this.#unknown()
    const { stage, answer } = attempt
    return { state: stage === 'paired' || stage === 'refused' ? stage : 'waiting', answer: answer ?? null }
  }

  /** The window while it is open; what has run out is closed. */
  #current (): Window | undefined {
    const { clock } = this.#options
    // A confirmation under way may take the cluster longer than the window.
    const over = this.#window !== undefined && clock.mono() >= this.#window.endsMs &&
      this.#attempt?.stage !== 'confirming'
    if (over) this.close()
    for (const [id, { endedMs }] of this.#ended) {
      if (clock.mono() - endedMs >= ANSWER_MS) this.#ended.delete(id)
    }
    return this.#window
  }

  #needed (): Window {
    const window = this.#current()
    if (window === undefined) throw this.#options.error('pairing_closed')
    return window
  }

  #end (attempt: Attempt, stage: 'paired' | 'refused'): void {
    attempt.stage = stage
    attempt.endedMs = this.#options.clock.mono()
    this.#ended.set(attempt.id, attempt)
    if (this.#ended.size > TRIES * 2) this.#ended.delete(this.#ended.keys().next().value!)
    this.#attempt = undefined
  }

  #fail (attempt: Attempt, problem: string): SvcError {
    this.#end(attempt, 'refused')
    return this.#options.error('pairing_failed', `The device was refused: ${problem}.`)
  }

  #unknown (): SvcError {
    return this.#options.error('pairing_closed', 'There is no such attempt, or it has ended.')
  }
}

const idOf = (device: DeviceHalf): string => deviceIdOf(sha256(device.key))

/** True for what can be a raw key. */
export const isKey = (bytes: Uint8Array): boolean => bytes.byteLength === KEY_BYTES
