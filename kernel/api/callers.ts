import { defineService } from './plugin.js'
import type { Caller } from './plugin.js'

/** Facts about a request before authentication. */
export interface Arrival {
  /** Of the socket, or of the client behind a proxy of `api.trust_proxy`. */
  readonly remoteAddress: string
  /** As in the Authorization header, whichever header carried it. */
  readonly authorization: string | undefined
  /** Through a proxy of `api.trust_proxy`, or from a page of another machine: its address gives no rights. */
  readonly indirect: boolean
  readonly method: string
  /** Path and query as the client sent them. */
  readonly target: string
  /** Pattern of the route that will answer, however the client spelled its path. */
  readonly route?: string | undefined
  /** Others could read the request: it came from another machine without TLS. */
  readonly inClear: boolean
  /** The socket; its ports identify the process at the other end. */
  readonly connection?: { readonly remotePort?: number | undefined, readonly localPort?: number | undefined }
  /** The device that the encrypted handshake of a relayed connection authenticated; null for direct ones. */
  readonly device: string | null
}

export interface Proof {
  readonly caller: Caller
  /** SHA-256 of the body that was signed along: another body is refused before the handler runs. */
  readonly bodySha256?: Uint8Array
}

/** An authentication scheme besides the kernel's tokens. */
export interface CallerScheme {
  /** The word in front of the credential in Authorization, e.g. `SVC1`. */
  readonly word: string
  /** Prefix of its bearer tokens, e.g. `svc_dev_`. */
  readonly bearer: string
  /**
   * Judges a credential (the text after the word) of each request, so synchronously. Undefined for a wrong
   * one: a 401 that counts against the address. May throw a typed 401. An arrival with a `device` must
   * resolve to that device, mode `relay`.
   */
  check (arrival: Arrival, credential: string): Proof | undefined
  /** Whether the credential of a caller is still valid; undefined for callers of other schemes. */
  stands (callerId: string): boolean | undefined
  /** The caller that admitted this one; undefined for callers of other schemes. */
  makerOf (callerId: string): string | undefined
}

export interface CallerRegistry {
  /** Returns a function that unregisters it. Throws for a registered word or prefix. */
  register (scheme: CallerScheme): () => void
  /** Loopback requests that pass this test get no authority from their address. Returns the undo. */
  distrust (test: (arrival: Arrival) => boolean): () => void
}
export const CallerService = defineService<CallerRegistry>('kernel.callers')
