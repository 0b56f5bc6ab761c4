import type { ErrorBody } from '../http/error-body.js'
import type { JsonSchema } from './schema.js'

/** The used part of a WebSocket of the package `ws`. */
export interface RouteSocket {
  readonly bufferedAmount: number
  readonly readyState: number
  send (data: Uint8Array, options: { binary: boolean }, done: (error?: Error | null) => void): void
  ping (): void
  pause (): void
  resume (): void
  close (code: number, reason: string): void
  terminate (): void
  on (event: 'message', fn: (data: Buffer | ArrayBuffer | Buffer[], isBinary: boolean) => void): unknown
  on (event: 'pong' | 'close', fn: () => void): unknown
  on (event: 'error', fn: (error: Error) => void): unknown
}

/** An HTTP route as a manifest declares it. */
export interface RouteDecl {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Full path; parameters as `:name`, the rest of a path as `*`. */
  readonly url: string
  readonly summary: string
  /** Authority a caller needs; `null` for none. Leaving it out fails the boot. */
  readonly authority: string | null
  /** True when other nodes of the cluster call it: a member's key opens these routes and no others. */
  readonly members?: boolean
  /**
   * Whether the audit keeps requests of it; when absent, all but GETs that need more than `read` or `invoke`.
   * It keeps what the schemas below describe, and of fields that are `writeOnly` only that they were there.
   * `best-effort`: a request that frees a disk too full for a record is not refused.
   */
  readonly audit?: boolean | 'best-effort'
  readonly params?: JsonSchema
  readonly query?: JsonSchema
  readonly body?: JsonSchema
  /** Shape of the 200 answer: documented, and checked in tests. */
  readonly reply?: JsonSchema
  /** Media type of the answer when it is not JSON; a `content-type` of its Reply counts more. */
  readonly produces?: string
  readonly errors?: readonly string[]
  /** Routes, also of other plugins, whose errors it passes on: `DELETE /store/models/:model_id`. */
  readonly asks?: readonly string[]
  /**
   * Puts the one error body into the words of a foreign API; what it has stays in it. Unknown paths beside
   * such routes are answered in those words, too.
   */
  readonly failure?: (body: ErrorBody, headers: Readonly<Record<string, unknown>>) => object
  /** The public API that the route belongs to; docs/reference/apis.md explains its fields. */
  readonly api?: string
  /** A further header for the id of the request, as that API's clients expect it. */
  readonly idHeader?: string
  /** Largest body in bytes; 256 KiB when absent. */
  readonly bodyLimit?: number
  /** The body is read as JSON whatever its content type says: clients of such APIs send none. */
  readonly anyContentType?: boolean
  /** The handler may open a stream. With HEAD its writer is `closed` at once. */
  readonly stream?: boolean
  /**
   * Further media types of the 200 answer, for the OpenAPI document. When absent: server-sent events where
   * the body has a field `stream`, or the query `follow`.
   */
  readonly streams?: readonly string[]
  /** A GET for a WebSocket, which the OpenAPI document leaves out; its handler gets the socket. */
  readonly socket?: boolean
  /** Handler deadline in ms; 60,000 when absent, none for a stream. */
  readonly deadlineMs?: number
}
