// What a request comes to that is not answered well.

/** A request that was answered with the one error body, or not at all. */
export class ApiError extends Error {
  readonly status: number
  readonly reason: string
  readonly remedy: string | null
  readonly details: Record<string, unknown>
  readonly requestId: string | null
  constructor (message: string, more: Partial<Omit<ApiError, 'message' | 'name'>> = {}) {
    super(message)
    this.status = more.status ?? 0
    this.reason = more.reason ?? 'unreachable'
    this.remedy = more.remedy ?? null
    this.details = more.details ?? {}
    this.requestId = more.requestId ?? null
  }
}
