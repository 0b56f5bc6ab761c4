/** Signs a device's requests, in browsers and on the command line. */
import { base64url, fromBase64url, purposeBytes } from '../../../kernel/net/encoding.js'
import { CORRECTION, correctionBytes, requestText, SIGNATURE_SCHEME, writeCredential } from './protocol.js'
import { fingerprintOf, isSignedBy, randomBytes, sha256 } from './web.js'

/** A device's identity and keys, however they are stored. */
export interface DeviceIdentity {
  readonly deviceId: string
  /** Ed25519 key that signs requests; the public key is raw. */
  readonly key: { readonly publicKey: Uint8Array }
  /** X25519, for the handshake over a relay; the public key is raw. */
  readonly agreement: { readonly publicKey: Uint8Array }
  readonly sign: (message: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>
}

/** The node's current id, and by how many ms its clock is ahead of the device's. */
export interface Seen { readonly nodeId: string, readonly aheadMs: number }

const NONCE_BYTES = 12
const MOST_SENT = 1024
const utf8 = new TextEncoder()

type Refusal = Partial<Record<'nodeId' | 'timeMs' | 'nonce' | 'nodeKey' | 'signature', unknown>>

export interface SigningOptions {
  keys: Pick<DeviceIdentity, 'deviceId' | 'sign'>
  /** Fingerprints of the cluster's nodes, whose corrections of ids and clocks are trusted. */
  fingerprints: ReadonlySet<string>
  /** Id and clock of the node; undefined until its first correction. */
  seen: Seen | undefined
  now: () => number
  /** Called with the corrected id and clock after each correction. */
  learnt?: (seen: Seen) => void
}

/** Signs a device's requests to one node; takes the node's id and clock from its corrections. */
export class RequestSigner {
  readonly #options: SigningOptions
  #seen: Seen
  /** Nonces of the newest requests; a correction is trusted only if it contains one of them. */
  readonly #sent = new Set<string>()

  constructor (options: SigningOptions) {
    this.#options = options
    this.#seen = options.seen ?? { nodeId: '', aheadMs: 0 }
  }

  /** The Authorization header of a request; `target` is its path and query as sent. */
  async authorization (
    method: string, target: string, body: Uint8Array<ArrayBuffer> | undefined
  ): Promise<string> {
    const { keys: { deviceId, sign }, now } = this.#options
    const request = {
      method, target, nodeId: this.#seen.nodeId,
      body: base64url(await sha256(body ?? new Uint8Array(0))),
      ts: Math.max(0, Math.round(now() + this.#seen.aheadMs)), nonce: base64url(randomBytes(NONCE_BYTES))
    }
    this.#sent.add(request.nonce)
    if (this.#sent.size > MOST_SENT) this.#sent.delete(this.#sent.values().next().value!)
    const signature = base64url(await sign(utf8.encode(requestText(request))))
    const { body: bodyHash, nonce, ts } = request
    const credential = writeCredential({ device: deviceId, ts, nonce, body: bodyHash, signature })
    return `${SIGNATURE_SCHEME} ${credential}`
  }

  /** Applies a correction that a node of the cluster signed for a request; returns whether to retry. */
  async correct (details: unknown): Promise<boolean> {
    const { nodeId, timeMs, nonce, nodeKey, signature } = (details ?? {}) as Refusal
    if (typeof nodeId !== 'string' || typeof timeMs !== 'number' || typeof nonce !== 'string') return false
    if (typeof nodeKey !== 'string' || typeof signature !== 'string') return false
    if (!this.#sent.delete(nonce)) return false
    const [key, proof] = [fromBase64url(nodeKey), fromBase64url(signature)]
    const fingerprint = await fingerprintOf(key)
    if (fingerprint === undefined || !this.#options.fingerprints.has(fingerprint)) return false
    const said = purposeBytes(CORRECTION, correctionBytes({ nodeId, timeMs, nonce }))
    if (!await isSignedBy(key, said, proof)) return false
    this.#seen = { nodeId, aheadMs: timeMs - this.#options.now() }
    this.#options.learnt?.(this.#seen)
    return true
  }
}
