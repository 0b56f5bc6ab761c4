import type { ErrorBody } from '../http/error-body.js'
import type { JsonSchema } from './schema.js'

/** The part of the `ws` package's WebSocket that routes use. */
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
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Full path; `:name` is a parameter, `*` the rest of the path. */
  readonly url: string
  /** Further paths without parameters that lead to this route. */
  readonly also?: readonly string[]
  readonly summary: string
  /** Required authority; `null` if none is needed. If a route lacks this field, the node does not start. */
  readonly authority: string | null
  /** True if other nodes may call this route; a member's key is accepted on such routes only. */
  readonly members?: boolean
  /**
   * Whether requests are audited. Default: if the method is not GET and the authority is neither `read` nor
   * `invoke`. A record contains the fields described by the schemas below, but hides `writeOnly` values.
   * `best-effort` lets a request run without a record, so that freeing disk space works on a full disk.
   */
  readonly audit?: boolean | 'best-effort'
  readonly params?: JsonSchema
  readonly query?: JsonSchema
  readonly body?: JsonSchema
  /** JSON Schema of the 200 answer: documented, and checked in tests. */
  readonly reply?: JsonSchema
  /** Media type of the answer when it is not JSON; the `content-type` of a Reply takes precedence. */
  readonly produces?: string
  readonly errors?: readonly string[]
  /** Routes whose errors this route forwards, e.g. `DELETE /store/models/:model_id`. */
  readonly asks?: readonly string[]
  /**
   * Converts the error body to a foreign API's format, keeping its contents. Unknown paths beside such
   * routes use that format too.
   */
  readonly failure?: (body: ErrorBody, headers: Readonly<Record<string, unknown>>) => object
  /** Name of the public API that the route belongs to; docs/reference/apis.md explains the APIs' fields. */
  readonly api?: string
  /** Additional response header with the request id, as the API's clients expect it. */
  readonly idHeader?: string
  /** Body size limit in bytes; 256 KiB when absent. */
  readonly bodyLimit?: number
  /**
   * Media types of bodies that the handler reads as a stream (`request.upload`), with schemas for the OpenAPI
   * document. They are neither limited nor checked, and signed requests may not send them.
   */
  readonly uploads?: Readonly<Record<string, JsonSchema>>
  /** True to parse the body as JSON whatever its content type, since some APIs' clients send none. */
  readonly anyContentType?: boolean
  /** True if the handler may open a stream. For HEAD requests the stream's writer is closed immediately. */
  readonly stream?: boolean
  /**
   * Additional media types of the 200 answer, for the OpenAPI document. Default: server-sent events if the
   * body has a `stream` field or the query a `follow` parameter.
   */
  readonly streams?: readonly string[]
  /** True for a GET that opens a WebSocket; not in the OpenAPI document. Its handler gets the socket. */
  readonly socket?: boolean
  /** Handler time limit in ms; 60,000 when absent, none for a stream. */
  readonly deadlineMs?: number
}
