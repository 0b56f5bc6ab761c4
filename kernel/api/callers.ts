import { defineService, type Caller } from './plugin.js'
import type { TokenRecord } from './services.js'

/** Facts about a request before authentication. */
export interface Arrival {
  /** Address of the socket, or of the client behind a proxy listed in `api.trust_proxy`. */
  readonly remoteAddress: string
  /** The credential in Authorization syntax, even if another header carried it. */
  readonly authorization: string | undefined
  /** True if a proxy or another machine's web page sent the request, so its address gives no authority. */
  readonly indirect: boolean
  readonly method: string
  /** Path and query as the client sent them. */
  readonly target: string
  /** Pattern of the route that will answer, however the client spelled its path. */
  readonly route?: string | undefined
  /** True if others could read the request because it came from another machine without TLS. */
  readonly inClear: boolean
  /** The socket; its ports identify the process at the other end. */
  readonly connection?: { readonly remotePort?: number | undefined, readonly localPort?: number | undefined }
  /** The device that the encrypted handshake authenticated; null for a connection without a relay. */
  readonly device: string | null
}

export interface Proof {
  readonly caller: Caller
  /** SHA-256 of the body if the signature covers it; any other body is refused before the handler runs. */
  readonly bodySha256?: Uint8Array
}

/** An authentication scheme other than the kernel's tokens. */
export interface CallerScheme {
  /** Scheme name before the credential in the Authorization header, e.g. `SVC1`. */
  readonly word: string
  /** Prefix of the scheme's bearer tokens, e.g. `svc_dev_`. */
  readonly bearer: string
  /**
   * Checks a credential (the text after the scheme name). Synchronous, since every request is checked.
   * Returns undefined for a wrong credential: the answer is a 401, and the address has one more failed
   * attempt. May throw a typed 401. For an arrival with a `device`, the caller must be that device, in mode
   * `relay`.
   */
  check (arrival: Arrival, credential: string): Proof | undefined
  /** Whether a caller's credential is still valid; undefined for callers that another scheme admitted. */
  stands (callerId: string): boolean | undefined
  /** Id of the caller that admitted this one; undefined for callers that another scheme admitted. */
  makerOf (callerId: string): string | undefined
  /** The scheme's own tokens, if it has any, for lists and for limits of what is made with them. */
  records? (): readonly TokenRecord[]
}

export interface CallerRegistry {
  /** Returns a function that unregisters the scheme. Throws if its word or prefix is already registered. */
  register (scheme: CallerScheme): () => void
  /** Denies loopback authority to requests that pass `test`; returns a function that removes the test. */
  distrust (test: (arrival: Arrival) => boolean): () => void
}
export const CallerService = defineService<CallerRegistry>('kernel.callers')
