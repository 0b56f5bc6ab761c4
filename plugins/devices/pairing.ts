import { createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { x25519, isSignedBy, networkOf, newKeyPair, sha256 } from '../../kernel/index.js'
import {
  ANSWER_KEY_BYTES, commitBytes, derived, deviceIdOf, DIGITS_BYTES, digitsOf, proofBytes, transcriptBytes
} from './signing/protocol.js'
import type { Clock, Identity, KeyPair, SvcError } from '../../kernel/index.js'
import type { DeviceHalf, NodeHalf } from './signing/protocol.js'

/** Lifetime of the operator's pairing window in seconds. */
export const WINDOW_SECONDS = 120
/** Maximum attempts per window, from one network and from all. Each allows one guess at the digits. */
export const TRIES = 5
export const TRIES_IN_ALL = 25
/** Milliseconds of silence after which a device's attempt may be replaced by another one. */
const SILENT_MS = 10_000
const ANSWER_MS = 60_000
export const NONCE_BYTES = 16

/** The operator's choices for the device, unless the confirmation changes them. */
export interface PairingWindowOptions {
  readonly name: string | null
  readonly authorities: readonly string[]
  readonly viaRelay: readonly string[]
  readonly expires: string
  readonly maxOfflineSeconds: number
  readonly by: string
}

/** `agreed`: the operator has confirmed, but the device has not. */
type Stage = 'begun' | 'compare' | 'agreed' | 'confirming' | 'paired' | 'refused'

interface Attempt {
  readonly id: string
  readonly from: string
  readonly commit: Buffer
  readonly node: NodeHalf
  readonly ephemeral: KeyPair
  readonly begunMs: number
  stage: Stage
  endedMs: number
  /** Called when the device confirms the digits during the operator's request, or when the attempt ends. */
  settle: () => void
  /** True once the device has asked for the outcome, which it does only after confirming the digits. */
  asked: boolean
  device?: DeviceHalf
  digits?: string
  answerKey?: Buffer
  /** The node's last answer to the device, and its MAC. */
  answer?: { text: string, mac: string }
}

interface Window {
  readonly wish: PairingWindowOptions
  endsMs: number
  readonly ends: string
  readonly begun: Map<string, number>
}

/** The window as the operator sees it. */
export interface WindowView {
  readonly open: boolean
  readonly ends: string | null
  readonly triesLeft: number
  readonly wish: PairingWindowOptions | null
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
 * The node's side of pairing, in memory only: one window, with one device at a time from each network. A
 * device commits to its data before it receives the node's, so a man in the middle has one guess in a million
 * at the digits per attempt.
 */
export class Pairing {
  readonly #options: PairingOptions
  #window: Window | undefined
  /** Open attempts by id, oldest first. */
  readonly #open = new Map<string, Attempt>()
  /** Ended attempts whose device may still request the outcome. */
  readonly #ended = new Map<string, Attempt>()

  constructor (options: PairingOptions) { this.#options = options }

  /** Opens the window. Throws `pairing_open` if one is open. */
  open (wish: PairingWindowOptions): WindowView {
    const { clock, error } = this.#options
    if (this.#current() !== undefined) {
      throw error('pairing_open', `A pairing is already open, until ${this.#window!.ends}.`,
        { ends: this.#window!.ends })
    }
    const ms = WINDOW_SECONDS * 1000
    this.#window = {
      wish, begun: new Map(), endsMs: clock.mono() + ms, ends: new Date(clock.now() + ms).toISOString()
    }
    return this.view()
  }

  /** Closes the window and refuses waiting devices; if a confirmation is in progress, closes afterwards. */
  close (): void {
    if (this.#isConfirming()) {
      this.#window!.endsMs = this.#options.clock.mono()
      return
    }
    for (const attempt of [...this.#open.values()]) this.#end(attempt, 'refused')
    this.#window = undefined
  }

  view (): WindowView {
    const window = this.#current()
    const { id, device, digits } = [...this.#open.values()].find(({ stage }) => stage !== 'begun') ?? {}
    return {
      open: window !== undefined,
      ends: window?.ends ?? null,
      triesLeft: window === undefined ? 0 : triesLeft(window),
      wish: window?.wish ?? null,
      device: device === undefined
        ? null
        : { attempt: id!, deviceId: idOf(device), name: device.name, digits: digits! }
    }
  }

  /** Steps 1 and 2 of pairing: stores a device's commitment. Throws `pairing_closed` and `pairing_busy`. */
  begin (commit: Buffer, address: string): { attempt: string, node: NodeHalf } {
    const { clock, error, identity } = this.#options
    const window = this.#needed()
    const from = networkOf(address)
    const held = [...this.#open.values()].find((attempt) => attempt.from === from)
    const silent = held?.stage === 'begun' && clock.mono() - held.begunMs >= SILENT_MS
    if (held !== undefined && !silent) {
      throw error('pairing_busy', 'Another device is being paired from this address; ' +
        'try again in a few seconds.')
    }
    if (held !== undefined) this.#end(held, 'refused')
    const begun = window.begun.get(from) ?? 0
    if (begun >= TRIES || triesLeft(window) === 0) {
      throw error('pairing_closed', begun >= TRIES
        ? `${TRIES} devices have tried from this address; open the pairing again with \`svc pair\`.`
        : `${TRIES_IN_ALL} devices have tried; open the pairing again with \`svc pair\`.`)
    }
    window.begun.set(from, begun + 1)
    const ephemeral = newKeyPair('X25519')
    const node = {
      key: identity.publicKey, agreementKey: identity.agreementKey, ephemeral: ephemeral.publicKey,
      nonce: randomBytes(NONCE_BYTES)
    }
    const id = randomBytes(NONCE_BYTES).toString('base64url')
    this.#open.set(id, {
      id, from, commit, node, ephemeral, begunMs: clock.mono(), endedMs: 0, stage: 'begun', asked: false,
      settle: () => {}
    })
    return { attempt: id, node }
  }

  /**
   * Steps 3 and 4 of pairing: checks the device's data against its commitment, and the proof that it holds
   * its key. Returns the node's signature over the transcript. Throws `pairing_closed` and `pairing_failed`.
   */
  reveal (id: string, device: DeviceHalf, proof: Buffer): Uint8Array {
    const attempt = this.#at(id, 'begun')
    const hash = sha256(transcriptBytes(attempt.commit, attempt.node, device))
    const problem = attempt.commit.equals(sha256(commitBytes(device)))
      ? isSignedBy(device.key, proofBytes(hash), proof) ? null : 'it did not prove its key'
      : 'its data does not match its commitment'
    if (problem !== null) throw this.#fail(attempt, problem)
    let shared: Buffer
    try {
      shared = x25519(attempt.ephemeral.privateKey, device.ephemeral)
    } catch {
      throw this.#fail(attempt, 'its ephemeral key is invalid')
    }
    Object.assign(attempt, pairSecrets(shared, hash), { device, stage: 'compare' })
    return this.#options.identity.sign('pair', hash)
  }

  /**
   * Step 5 of pairing: the operator has compared the digits. Resolves once the device agrees. Throws
   * `pairing_closed`, `pairing_busy` for a second device, `pairing_failed` for other digits or a refusal.
   */
  async confirm (
    id: string, digits: string
  ): Promise<{ device: DeviceHalf, deviceId: string, wish: PairingWindowOptions }> {
    const attempt = this.#at(id, 'compare')
    const { error } = this.#options
    const { wish } = this.#window!
    if (attempt.digits !== digits) {
      throw error('pairing_failed', `The digits of this device are not ${digits}; nothing was granted.`)
    }
    if ([...this.#open.values()].some(({ stage }) => stage === 'agreed' || stage === 'confirming')) {
      throw error('pairing_busy', 'Another device was just confirmed, and a window accepts only one.')
    }
    attempt.stage = 'agreed'
    if (!attempt.asked) await new Promise<void>((resolve) => { attempt.settle = resolve })
    if ((attempt.stage as Stage) === 'refused') {
      throw error('pairing_failed', 'The device did not confirm the digits.')
    }
    attempt.stage = 'confirming'
    return { device: attempt.device!, deviceId: idOf(attempt.device!), wish }
  }

  /** Delivers the grant, which the cluster has stored, to the device and closes the window. */
  done (id: string, answer: object): void {
    const attempt = this.#open.get(id)
    if (attempt === undefined) return
    const text = JSON.stringify(answer)
    attempt.answer = { text, mac: answerMac(attempt.answerKey!, text) }
    this.#end(attempt, 'paired')
    this.close()
  }

  /** Lets the operator retry after the cluster has refused the grant. */
  again (id: string): void {
    const attempt = this.#open.get(id)
    if (attempt?.stage === 'confirming') attempt.stage = 'compare'
  }

  /** Ends a refused attempt; other devices may still try. Returns the device's name, if known. */
  refuse (id: string): string | undefined {
    const attempt = this.#open.get(id)
    if (attempt?.stage !== 'compare' && attempt?.stage !== 'agreed') return undefined
    this.#end(attempt, 'refused')
    return attempt.device!.name
  }

  /** The outcome for a device that has agreed. Throws `pairing_closed` for an unknown attempt. */
  outcome (id: string): { state: 'waiting' | 'paired' | 'refused', answer: Attempt['answer'] | null } {
    this.#current()
    const attempt = this.#open.get(id) ?? this.#ended.get(id)
    if (attempt === undefined) throw this.#unknown()
    attempt.asked = true
    attempt.settle()
    const { stage, answer } = attempt
    return { state: stage === 'paired' || stage === 'refused' ? stage : 'waiting', answer: answer ?? null }
  }

  #isConfirming (): boolean { return [...this.#open.values()].some(({ stage }) => stage === 'confirming') }

  /** The open window; closes an expired one. */
  #current (): Window | undefined {
    const { clock } = this.#options
    // While a confirmation is in progress, the window stays open even if it has expired.
    const window = this.#window
    const over = window !== undefined && !this.#isConfirming() &&
      (clock.mono() >= window.endsMs || (triesLeft(window) === 0 && this.#open.size === 0))
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

  #at (id: string, stage: Stage): Attempt {
    this.#needed()
    const attempt = this.#open.get(id)
    if (attempt?.stage !== stage) throw this.#unknown()
    return attempt
  }

  #end (attempt: Attempt, stage: 'paired' | 'refused'): void {
    attempt.stage = stage
    attempt.endedMs = this.#options.clock.mono()
    this.#ended.set(attempt.id, attempt)
    if (this.#ended.size > TRIES_IN_ALL * 2) this.#ended.delete(this.#ended.keys().next().value!)
    this.#open.delete(attempt.id)
    attempt.settle()
  }

  #fail (attempt: Attempt, problem: string): SvcError {
    this.#end(attempt, 'refused')
    return this.#options.error('pairing_failed', `The device was refused: ${problem}.`)
  }

  #unknown (): SvcError {
    return this.#options.error('pairing_closed', 'There is no such attempt, or it has ended.')
  }
}

const triesLeft = ({ begun }: Window): number =>
  [...begun.values()].reduce((left, tries) => left - tries, TRIES_IN_ALL)

const idOf = (device: DeviceHalf): string => deviceIdOf(sha256(device.key))

/** Secrets that both sides derive from the ephemeral shared secret and the transcript hash. */
export interface PairSecrets { readonly digits: string, readonly answerKey: Buffer }

export function pairSecrets (shared: Uint8Array, transcriptHash: Uint8Array): PairSecrets {
  const make = (info: string, bytes: number): Buffer =>
    Buffer.from(hkdfSync('sha256', shared, transcriptHash, info, bytes))
  return {
    digits: digitsOf(make(derived.digits, DIGITS_BYTES)), answerKey: make(derived.answer, ANSWER_KEY_BYTES)
  }
}

/** HMAC-SHA-256, base64url: authenticates the node's last answer in a pairing. */
export const answerMac = (key: Uint8Array, text: string): string =>
  createHmac('sha256', key).update(text).digest('base64url')
