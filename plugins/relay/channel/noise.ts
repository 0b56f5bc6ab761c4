import { KEY_BYTES } from '../../../kernel/index.js'
import { derive, hash, seal, TAG_BYTES, unseal, type Agreement } from './suite.js'

/**
 * The handshake Noise_IK_25519_AESGCM_SHA256 of the Noise Protocol Framework, revision 34:
 * <- s
 * ...
 * -> e, es, s, ss
 * <- e, ee, se
 * The initiator knows the responder's key and sends its own key encrypted. The only randomness is the
 * ephemeral key pair. A handshake object is for one use, and unusable after an exception.
 */
const NAME = 'Noise_IK_25519_AESGCM_SHA256'
const NOTHING: Uint8Array = new Uint8Array()
const REKEY_COUNTER = 2n ** 64n - 1n
export const MESSAGE_BYTES = 65_535

/** A key with its message counter; lost, repeated or reordered messages fail to decrypt. */
export class CipherState {
  #key: Uint8Array
  #counter = 0n

  constructor (key: Uint8Array) { this.#key = key }

  encrypt (plain: Uint8Array, aad = NOTHING): Uint8Array {
    return seal(this.#key, this.#next(), aad, plain)
  }

  /** Decrypts the other side's next message. Throws if it is a different message or was altered. */
  decrypt (sealed: Uint8Array, aad = NOTHING): Uint8Array {
    return unseal(this.#key, this.#next(), aad, sealed)
  }

  /** Replaces the key irreversibly (Noise revision 34, 4.2); the message counter continues. */
  rekey (): void {
    this.#key = seal(this.#key, REKEY_COUNTER, NOTHING, new Uint8Array(KEY_BYTES)).subarray(0, KEY_BYTES)
  }

  #next (): bigint {
    if (this.#counter === REKEY_COUNTER) throw new Error('the message counter is exhausted')
    return this.#counter++
  }
}

export interface Session {
  /** The handshake hash, which is equal on both sides and unique to this handshake. */
  readonly hash: Uint8Array
  readonly sending: CipherState
  readonly receiving: CipherState
}

class SymmetricState {
  #chainingKey: Uint8Array
  #hash: Uint8Array
  #cipher: CipherState | undefined

  constructor (prologue: Uint8Array) {
    // Pad the protocol name with zeros; Noise hashes only names that are longer than a hash.
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

  /** Returns the ciphers for the initiator's messages (`first`) and the responder's (`second`). */
  split (): { hash: Uint8Array, first: CipherState, second: CipherState } {
    const [first, second] = derive(this.#chainingKey, NOTHING)
    return { hash: this.#hash, first: new CipherState(first), second: new CipherState(second) }
  }
}

export interface HandshakeOptions {
  /** Data that both sides know in advance; the handshake fails if the two sides' data differ. */
  readonly prologue: Uint8Array
  readonly own: Agreement
  /** A fresh random key pair, used only for this handshake. */
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

  /** Creates the first message, whose payload an eavesdropper may replay to the responder. */
  start (payload = NOTHING): Uint8Array {
    const { own, ephemeral, remoteStatic } = this.#options
    const state = this.#state
    state.mixHash(ephemeral.publicKey)
    state.mixKey(ephemeral.agree(remoteStatic))
    const sealedKey = state.encryptAndHash(own.publicKey)
    state.mixKey(own.agree(remoteStatic))
    return Buffer.concat([ephemeral.publicKey, sealedKey, state.encryptAndHash(payload)])
  }

  /** Reads the responder's answer. Throws unless it proves that the responder has the expected key. */
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
   * Reads the first message and returns its claimed sender. The message may be a replay, so the sender is
   * proved only by the first message of the session. Throws for a message that was encrypted for another key.
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

function part (message: Uint8Array, at: number, length: number): Uint8Array {
  const bytes = message.subarray(at, at + length)
  if (bytes.length < length) throw new Error(`a handshake message of ${message.length} bytes is too short`)
  return bytes
}
