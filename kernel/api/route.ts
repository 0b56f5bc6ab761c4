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

export interface RouteDecl {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Full path; parameters as `:name`, the rest of a path as `*`. */
  readonly url: string
  readonly summary: string
  /** Required authority; `null` for none. Leaving it out fails the boot. */
  readonly authority: string | null
  /** True if other nodes of the cluster call it: a member's key opens these routes and no others. */
  readonly members?: boolean
  /**
   * Whether the audit records its requests; when absent, it does for methods other than GET that need more
   * than `read` or `invoke`. It records the fields that the schemas below describe, and of `writeOnly` fields
   * only their presence. `best-effort`: a request that frees a disk too full for a record is not refused.
   */
  readonly audit?: boolean | 'best-effort'
  readonly params?: JsonSchema
  readonly query?: JsonSchema
  readonly body?: JsonSchema
  /** Shape of the 200 answer: documented, and checked in tests. */
  readonly reply?: JsonSchema
  /** Media type of the answer when it is not JSON; the `content-type` of a Reply takes precedence. */
  readonly produces?: string
  readonly errors?: readonly string[]
  /** Routes, also of other plugins, whose errors it forwards: `DELETE /store/models/:model_id`. */
  readonly asks?: readonly string[]
  /**
   * Converts the error body to the format of a foreign API, keeping its contents. Unknown paths beside such
   * routes use that format, too.
   */
  readonly failure?: (body: ErrorBody, headers: Readonly<Record<string, unknown>>) => object
  /** The public API that the route belongs to; docs/reference/apis.md explains its fields. */
  readonly api?: string
  /** An additional header for the request id, as that API's clients expect it. */
  readonly idHeader?: string
  /** Largest body in bytes; 256 KiB when absent. */
  readonly bodyLimit?: number
  /** Reads the body as JSON whatever its content type: clients of such APIs send none. */
  readonly anyContentType?: boolean
  /** The handler may open a stream. With HEAD its writer is `closed` at once. */
  readonly stream?: boolean
  /**
   * Further media types of the 200 answer, for the OpenAPI document. When absent: server-sent events if the
   * body has a field `stream`, or the query `follow`.
   */
  readonly streams?: readonly string[]
  /** A GET for a WebSocket, which the OpenAPI document leaves out; its handler gets the socket. */
  readonly socket?: boolean
  /** Handler deadline in ms; 60,000 when absent, none for a stream. */
  readonly deadlineMs?: number
}
