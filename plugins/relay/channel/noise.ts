import { KEY_BYTES } from '../../../kernel/index.js'
import { derive, hash, seal, TAG_BYTES, unseal } from './suite.js'
import type { Agreement } from './suite.js'

/**
 * The handshake Noise_IK_25519_AESGCM_SHA256 of the Noise Protocol Framework, revision 34:
 * <- s
 * ...
 * -> e, es, s, ss
 * <- e, ee, se
 * The initiator knows the responder's key; its own travels encrypted. Randomness is the ephemeral key pair. A
 * handshake object is for one use, and useless after it threw.
 */
const NAME = 'Noise_IK_25519_AESGCM_SHA256'
const NOTHING: Uint8Array = new Uint8Array()
/** The counter that only rekeying uses. */
const REKEY_COUNTER = 2n ** 64n - 1n
/** Longest message of Noise, bytes. */
export const MESSAGE_BYTES = 65_535

/** A key with its counter: each message has the next one, so a lost, repeated or moved one does not open. */
export class CipherState {
  #key: Uint8Array
  #counter = 0n

  constructor (key: Uint8Array) { this.#key = key }

  encrypt (plain: Uint8Array, aad = NOTHING): Uint8Array {
    return seal(this.#key, this.#next(), aad, plain)
  }

  /** Throws when the message is not the next one of the other side, whole. */
  decrypt (sealed: Uint8Array, aad = NOTHING): Uint8Array {
    return unseal(this.#key, this.#next(), aad, sealed)
  }

  /** The next key, from which this one cannot be found (revision 34, 4.2). The counter goes on. */
  rekey (): void {
    this.#key = seal(this.#key, REKEY_COUNTER, NOTHING, new Uint8Array(KEY_BYTES)).subarray(0, KEY_BYTES)
  }

  #next (): bigint {
    if (this.#counter === REKEY_COUNTER) throw new Error('the counter is used up')
    return this.#counter++
  }
}

/** The result of a handshake. */
export interface Session {
  /** The same on both sides, and of no other handshake. */
  readonly hash: Uint8Array
  readonly sending: CipherState
  readonly receiving: CipherState
}

class SymmetricState {
  #chainingKey: Uint8Array
  #hash: Uint8Array
  #cipher: CipherState | undefined

  constructor (prologue: Uint8Array) {
    // The name is shorter than a hash, so it is filled up with zeros instead of hashed.
    const name = new Uint8Array(KEY_BYTES)
    name.set(Buffer.from(NAME))
    this.#chainingKey = this.#hash = name
    this.mixHash(prologue)
  }

  mixHash (data: Uint8Array): void { this.#hash = hash(this.#hash, data) }

  mixKey (input: Uint8Array): void {
    const [chainingKey, key] = derive(this.#chainingKey, input)
    this.#chainingKey = chainingKey
    this.#cipher = new CipherState(key)
  }

  encryptAndHash (plain: Uint8Array): Uint8Array {
    const sealed = this.#cipher!.encrypt(plain, this.#hash)
    this.mixHash(sealed)
    return sealed
  }

  decryptAndHash (sealed: Uint8Array): Uint8Array {
    const plain = this.#cipher!.decrypt(sealed, this.#hash)
    this.mixHash(sealed)
    return plain
  }

  /** The cipher of the initiator's messages, then that of the responder's. */
  split (): { hash: Uint8Array, first: CipherState, second: CipherState } {
    const [first, second] = derive(this.#chainingKey, NOTHING)
    return { hash: this.#hash, first: new CipherState(first), second: new CipherState(second) }
  }
}

export interface HandshakeOptions {
  /** Data that both sides know without sending it. */
  readonly prologue: Uint8Array
  readonly own: Agreement
  /** Fresh, random, for this handshake only. */
  readonly ephemeral: Agreement
}

export class Initiator {
  readonly #options: HandshakeOptions & { readonly remoteStatic: Uint8Array }
  readonly #state: SymmetricState

  constructor (options: HandshakeOptions & { readonly remoteStatic: Uint8Array }) {
    this.#options = options
    this.#state = new SymmetricState(options.prologue)
    this.#state.mixHash(options.remoteStatic)
  }

  /** The first message. Its payload may be replayed to the responder by anyone who has seen it. */
  start (payload = NOTHING): Uint8Array {
    const { own, ephemeral, remoteStatic } = this.#options
    const state = this.#state
    state.mixHash(ephemeral.publicKey)
    state.mixKey(ephemeral.agree(remoteStatic))
    const sealedKey = state.encryptAndHash(own.publicKey)
    state.mixKey(own.agree(remoteStatic))
    return Buffer.concat([ephemeral.publicKey, sealedKey, state.encryptAndHash(payload)])
  }

  /** Reads the answer. Throws when it is not that of the responder whose key we know. */
  finish (message: Uint8Array): { session: Session, payload: Uint8Array } {
    const { own, ephemeral } = this.#options
    const state = this.#state
    const remote = part(message, 0, KEY_BYTES)
    state.mixHash(remote)
    state.mixKey(ephemeral.agree(remote))
    state.mixKey(own.agree(remote))
    const payload = state.decryptAndHash(message.subarray(KEY_BYTES))
    const { hash, first, second } = state.split()
    return { payload, session: { hash, sending: first, receiving: second } }
  }
}

export class Responder {
  readonly #options: HandshakeOptions
  readonly #state: SymmetricState
  #remote: { readonly key: Uint8Array, readonly ephemeral: Uint8Array } | undefined

  constructor (options: HandshakeOptions) {
    this.#options = options
    this.#state = new SymmetricState(options.prologue)
    this.#state.mixHash(options.own.publicKey)
  }

  /**
   * Reads the first message and returns its claimed sender, who is proven only by the session's first
   * message: this one may be a replay. Throws for a message for another key.
   */
  receive (message: Uint8Array): { remoteStatic: Uint8Array, payload: Uint8Array } {
    const { own } = this.#options
    const state = this.#state
    const ephemeral = part(message, 0, KEY_BYTES)
    state.mixHash(ephemeral)
    state.mixKey(own.agree(ephemeral))
    const key = state.decryptAndHash(part(message, KEY_BYTES, KEY_BYTES + TAG_BYTES))
    state.mixKey(own.agree(key))
    const payload = state.decryptAndHash(message.subarray(2 * KEY_BYTES + TAG_BYTES))
    this.#remote = { key, ephemeral }
    return { remoteStatic: key, payload }
  }

  /** The answer, after `receive`. */
  answer (payload = NOTHING): { message: Uint8Array, session: Session } {
    const { ephemeral } = this.#options
    const state = this.#state
    const remote = this.#remote!
    state.mixHash(ephemeral.publicKey)
    state.mixKey(ephemeral.agree(remote.ephemeral))
    state.mixKey(ephemeral.agree(remote.key))
    const message = Buffer.concat([ephemeral.publicKey, state.encryptAndHash(payload)])
    const { hash, first, second } = state.split()
    return { message, session: { hash, sending: second, receiving: first } }
  }
}

/** Throws for a message that is too short. */
function part (message: Uint8Array, at: number, length: number): Uint8Array {
  const bytes = message.subarray(at, at + length)
  if (bytes.length < length) throw new Error(`a handshake message of ${message.length} bytes is too short`)
  return bytes
}
