// How a route answers: a stream that it writes itself, or JSON with a status of its own.

/** How a streamed response begins. */
export interface StreamHead {
  status?: number
  contentType: string
  headers?: Record<string, string>
  /** How long the reader may take nothing; the server's own limit when absent. */
  stallMs?: number
}

/** The one way to write a streamed response: every write waits for the reader. */
export interface StreamWriter {
  /**
   * Resolves when the bytes are accepted, undefined if they are at once; rejects when the reader is gone or
   * took nothing for too long.
   */
  write (bytes: Uint8Array | string): Promise<void> | undefined
  /** Ends the response cleanly. */
  end (): Promise<void>
  /** Cuts the connection: the client sees an incomplete response, never a clean end. */
  cut (): void
  readonly closed: boolean
}

/** An answer with a status or headers of its own (a bare value is a 200); JSON without a `content-type`. */
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
