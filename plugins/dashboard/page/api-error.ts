export class ApiError extends Error {
  readonly status: number = 0
  readonly reason: string = 'unreachable'
  readonly remedy: string | null = null
  readonly details: Record<string, unknown> = {}

  constructor (message: string, more: Partial<Omit<ApiError, 'message' | 'name'>> = {}) {
    super(message)
    Object.assign(this, more)
  }
}
