import { kernelError, SvcError } from '../../../kernel/index.js'
import type { RouteRequest, StreamHead, StreamWriter } from '../../../kernel/index.js'

/** The one error body, as a served stream hands it out. */
export interface ErrorBody {
  error: {
    message: string, type: string, param: string | null, code: number, reason: string, retryable: boolean,
    requestId: string, details: Record<string, unknown>
  }
  detail: string
}

/**
 * A response that begins with its first text. Until then nothing was sent, not even the status, so that a
 * refusal is an ordinary error body however long the decision took.
 */
export class LateHead {
  /** The request to serve in the place of the given one. */
  readonly request: RouteRequest
  /** Headers for the head that were not known when it was asked for. */
  readonly headers: Record<string, string> = {}
  /** How it failed before its first text. */
  failure: ErrorBody | null = null
  readonly #given: RouteRequest
  #head: StreamHead | null = null
  #writer: StreamWriter | null = null

  constructor (given: RouteRequest) {
    this.#given = given
    const { params, query, body, headers, caller, requestId, member, signal } = given
    const open = (head: StreamHead): StreamWriter => this.#open(head)
    this.request = { params, query, body, headers, caller, requestId, member, signal, open }
  }

  /** Whether the head was sent. */
  get sent (): boolean { return this.#writer !== null }

  /** The failure as it is thrown to become an ordinary answer. */
  thrown (): SvcError {
    if (this.failure === null) return this.#named(kernelError('cancelled'))
    const { reason, code: status, retryable, message, details } = this.failure.error
    const decl = { status, retryable, message, remedy: String(details['remedy'] ?? '') }
    return this.#named(new SvcError(reason, decl, message, details))
  }

  #named (error: SvcError): SvcError {
    const id = this.#head?.headers?.['x-svc-command-id']
    if (id !== undefined) error.headers['x-svc-command-id'] = id
    return error
  }

  #open (head: StreamHead): StreamWriter {
    this.#head = head
    const writer = (): StreamWriter =>
      this.#writer ??= this.#given.open({ ...head, headers: { ...head.headers, ...this.headers } })
    const late = this
    return {
      write: async (bytes) => { await writer().write(bytes) },
      end: async () => { await this.#writer?.end() },
      cut: () => { this.#writer?.cut() },
      get closed () { return late.#writer?.closed ?? false }
    }
  }
}
