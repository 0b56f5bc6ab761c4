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
