// A route answers with a stream that it writes itself, or with JSON and a status.

export interface StreamHead {
  status?: number
  contentType: string
  headers?: Record<string, string>
  /** Longest time in ms that the reader may stall; the server's default when absent. */
  stallMs?: number
}

/** Writer for streamed responses; every write waits for the reader. */
export interface StreamWriter {
  /** Resolves once accepted, or rejects if the reader leaves or stalls; undefined if accepted at once. */
  write (bytes: Uint8Array | string): Promise<void> | undefined
  end (): Promise<void>
  /** Cuts the connection: the client sees an incomplete response, never a clean end. */
  cut (): void
  readonly closed: boolean
}

/** A response with a status or headers; JSON if `content-type` is absent. A plain return value is a 200. */
export class Reply {
  readonly status: number
  readonly body: unknown
  readonly headers: Record<string, string>
  constructor (body: unknown, status = 200, headers: Record<string, string> = {}) {
    this.body = body
    this.status = status
    this.headers = headers
  }
}
